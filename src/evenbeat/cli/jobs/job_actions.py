"""`evenbeat jobs run`, `pause`, `cancel` and the others: what people do to jobs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.jobs import job_selection
from evenbeat.cli.shell import follow_run, printing
from evenbeat.cli.shell.app_session import cli_actor, with_app
from evenbeat.cli.shell.option_sets import expand_option_sets
from evenbeat.cli.shell.options import ConsentOptions, DataDir
from evenbeat.control.jobs.actions import ActionResult
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.lifecycle import Action

All = Annotated[
    bool, typer.Option("--all", help="All that match the other options; alone, every job.")
]

DONE = {
    Action.RUN: "Asked to run",
    Action.PAUSE: "Paused",
    Action.RESUME: "Resumed",
    Action.ENABLE: "Enabled",
    Action.DISABLE: "Disabled",
    Action.RETRY: "Asked to run again",
    Action.CANCEL: "Cancelled",
    Action.RELEASE: "Released",
    Action.DELETE: "Deleted",
}
HELP = {
    Action.PAUSE: """Keep the schedules of jobs and run nothing of them; what runs finishes first.

    Example: evenbeat jobs pause --label team=search --dry-run
    """,
    Action.RESUME: """Take up the schedules of paused jobs again, at the first beat from now.

    Example: evenbeat jobs resume --state paused --kind crawl
    """,
    Action.ENABLE: """Let disabled jobs take part again.

    Example: evenbeat jobs enable report
    """,
    Action.DISABLE: """Take jobs out until they are enabled; what runs finishes first.

    Example: evenbeat jobs disable report
    """,
    Action.RETRY: """Bring back what failed, completed or was cancelled: once more, now.

    Example: evenbeat jobs retry --state failed --skip-refused
    """,
    Action.CANCEL: """End jobs for good, and stop what runs of them; asks first.

    Example: evenbeat jobs cancel report --yes
    """,
    Action.RELEASE: """Take runs from a node that is stuck; they begin again elsewhere. Asks first.

    Example: evenbeat jobs release report
    """,
    Action.DELETE: """Remove jobs and stop what runs of them; their history stays. Asks first.

    Example: evenbeat jobs delete --state completed --kind mail --dry-run
    """,
}
# What they end cannot be brought back as it was.
DESTRUCTIVE = (Action.CANCEL, Action.RELEASE, Action.DELETE)
MOST_SHOWN = 20
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class JobCommand:
    """What somebody wants done, and to which jobs: those named, or all that match."""

    action: Action
    names: tuple[str, ...]
    matching: Filter
    consent: ConsentOptions

    @property
    def needs_consent(self) -> bool:
        """To end something, or to touch jobs that were not named one by one."""
        is_weighty = self.action in DESTRUCTIVE or not self.names
        return is_weighty and not (self.consent.yes or self.consent.dry_run)

    async def chosen(self, eb: Evenbeat) -> Filter:
        return (
            await job_selection.find_named_jobs(eb, list(self.names))
            if self.names
            else self.matching
        )

    async def look(self, eb: Evenbeat) -> ActionResult:
        return await eb.jobs.act(self.action, await self.chosen(eb), by=cli_actor(), dry_run=True)

    async def act(self, eb: Evenbeat, agreed: Filter | None) -> ActionResult:
        """Of those that match, only the ones that somebody has agreed to."""
        return await eb.jobs.act(
            self.action,
            agreed or await self.chosen(eb),
            by=cli_actor(),
            dry_run=self.consent.dry_run,
            skip_refused=self.consent.skip_refused,
        )


def make_job_command(
    action: Action,
    names: list[str] | None,
    everything: bool,
    matching: Filter,
    consent: ConsentOptions,
) -> JobCommand:
    if names and (everything or not matching.is_everything):
        raise typer.BadParameter("name jobs, or choose them by options: not both")
    if not names and matching.is_everything and not everything:
        raise typer.BadParameter("say which jobs: name them, or choose them by options, or --all")
    return JobCommand(action, tuple(names or ()), matching, consent)


def run_job_command(wish: JobCommand, data_dir: str | None, output: printing.Format) -> None:
    agreed, left_out = None, ()
    if wish.needs_consent:
        found = with_app(wish.look, data_dir)
        if found.refused and not wish.consent.skip_refused:
            # Nothing would be done, so there is nothing to agree to.
            report_result(found, wish, output)
            return
        agreed, left_out = confirm_jobs(found, wish), found.refused
    with printing.show_progress(f"{wish.action.capitalize()} …"):
        tally = with_app(lambda eb: wish.act(eb, agreed), data_dir)
    report_result(replace(tally, refused=(*left_out, *tally.refused)), wish, output)


def confirm_jobs(found: ActionResult, wish: JobCommand) -> Filter:
    """Those that somebody agrees to; what comes to match meanwhile was not asked about."""
    if found.changed:
        are_named = 0 < len(wish.names) <= MOST_NAMED
        who = (
            ", ".join(wish.names) if are_named else printing.format_count(len(found.changed), "job")
        )
        typer.confirm(f"{wish.action.capitalize()} {who}?", abort=True, err=True)
    return Filter(uids=frozenset(found.changed))


def report_result(tally: ActionResult, wish: JobCommand, output: printing.Format) -> None:
    if output is printing.Format.JSON:
        from evenbeat.api.v1.jobs.wire.actions import JobActionOut

        printing.print_model(JobActionOut.from_core(tally))
    else:
        print_job_result(tally, wish)
    # As it would end without --dry-run.
    if tally.refused and not wish.consent.skip_refused:
        typer.echo(printing.REFUSED, err=True)
        raise typer.Exit(1)


def print_job_result(tally: ActionResult, wish: JobCommand) -> None:
    is_single = len(wish.names) == 1
    who = wish.names[0] if is_single else printing.format_count(len(tally.changed), "job")
    what = f"Would {tally.action}" if tally.is_dry_run else DONE[tally.action]
    if tally.changed or not tally.refused:
        none = "" if tally.changed else ": no job matches"
        typer.echo(f"{what} {who}{none}.")
    for refused in tally.refused[:MOST_SHOWN]:
        typer.echo(f"Refused: {refused}")
    if len(tally.refused) > MOST_SHOWN:
        typer.echo(f"… and {len(tally.refused) - MOST_SHOWN} more that refuse.")


@expand_option_sets
def run(
    matching: job_selection.JobMatchOptions,
    consent: ConsentOptions,
    jobs: job_selection.JobsArgument = None,
    everything: All = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for the run of one job, and end as it ends.")
    ] = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Run jobs once, now; their schedules are not touched, and a paused job stays paused.

    With --follow, the exit code is 0 if the run completes and 1 if it does not.

    Example: evenbeat jobs run report --follow
    """
    wish = make_job_command(Action.RUN, jobs, everything, matching.filter(), consent)
    if not follow:
        run_job_command(wish, data_dir, output)
        return
    if len(wish.names) != 1 or consent.dry_run:
        raise typer.BadParameter("follows one job that is named", param_hint="--follow")
    follow_run.run_and_follow(wish.names[0], data_dir, output)


def command_for(action: Action) -> Callable[..., None]:
    """The others differ in nothing but what they do."""

    def act(
        matching: job_selection.JobMatchOptions,
        consent: ConsentOptions,
        jobs: job_selection.JobsArgument = None,
        everything: All = False,
        data_dir: DataDir = None,
        output: printing.Output = printing.Format.TABLE,
    ) -> None:
        run_job_command(
            make_job_command(action, jobs, everything, matching.filter(), consent), data_dir, output
        )

    act.__doc__ = HELP[action]
    return expand_option_sets(act)


pause = command_for(Action.PAUSE)
resume = command_for(Action.RESUME)
enable = command_for(Action.ENABLE)
disable = command_for(Action.DISABLE)
retry = command_for(Action.RETRY)
cancel = command_for(Action.CANCEL)
release = command_for(Action.RELEASE)
delete = command_for(Action.DELETE)
