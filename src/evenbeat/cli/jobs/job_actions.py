"""`evenbeat jobs run`, `pause`, `cancel` and the other actions on jobs."""

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
    bool,
    typer.Option(
        "--all", help="All jobs that match the other options; without options, every job."
    ),
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
    Action.PAUSE: """Pause jobs: they keep their schedules but run nothing; runs in progress finish.

    Example: evenbeat jobs pause --label team=search --dry-run
    """,
    Action.RESUME: """Resume paused jobs, from the first beat after now.

    Example: evenbeat jobs resume --state paused --kind crawl
    """,
    Action.ENABLE: """Enable disabled jobs again.

    Example: evenbeat jobs enable report
    """,
    Action.DISABLE: """Disable jobs until they are enabled again; runs in progress finish.

    Example: evenbeat jobs disable report
    """,
    Action.RETRY: """Run failed, completed or cancelled jobs once more, now.

    Example: evenbeat jobs retry --state failed --skip-refused
    """,
    Action.CANCEL: """Cancel jobs for good, and stop their runs. Asks first.

    Example: evenbeat jobs cancel report --yes
    """,
    Action.RELEASE: """Take runs away from a stuck node; they start again on another. Asks first.

    Example: evenbeat jobs release report
    """,
    Action.DELETE: """Delete jobs and stop their runs; their history stays. Asks first.

    Example: evenbeat jobs delete --state completed --kind mail --dry-run
    """,
}
# These actions cannot be undone.
DESTRUCTIVE = (Action.CANCEL, Action.RELEASE, Action.DELETE)
MOST_SHOWN = 20
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class JobCommand:
    """An action on jobs: on those that are named, or on all that match."""

    action: Action
    names: tuple[str, ...]
    filter: Filter
    consent: ConsentOptions

    @property
    def needs_consent(self) -> bool:
        """Before an action that cannot be undone, or on jobs that were not named one by one."""
        needs_care = self.action in DESTRUCTIVE or not self.names
        return needs_care and not (self.consent.yes or self.consent.dry_run)

    async def job_filter(self, eb: Evenbeat) -> Filter:
        if not self.names:
            return self.filter
        return await job_selection.find_named_jobs(eb, list(self.names))

    async def dry_run(self, eb: Evenbeat) -> ActionResult:
        """What the action would do; changes nothing."""
        jobs = await self.job_filter(eb)
        return await eb.jobs.act(self.action, jobs, by=cli_actor(), dry_run=True)

    async def act(self, eb: Evenbeat, confirmed: Filter | None) -> ActionResult:
        """Act on the `confirmed` jobs, or on all of them where no question was asked."""
        return await eb.jobs.act(
            self.action,
            confirmed or await self.job_filter(eb),
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
        raise typer.BadParameter("name jobs or choose them by options, not both")
    if not names and matching.is_everything and not everything:
        raise typer.BadParameter("say which jobs: name them, choose them by options, or pass --all")
    return JobCommand(action, tuple(names or ()), matching, consent)


def run_job_command(command: JobCommand, data_dir: str | None, output: printing.Format) -> None:
    confirmed, left_out = None, ()
    if command.needs_consent:
        preview = with_app(command.dry_run, data_dir)
        if preview.refused and not command.consent.skip_refused:
            # Nothing would be done, so there is nothing to confirm.
            report_result(preview, command, output)
            return
        confirmed, left_out = confirm_jobs(preview, command), preview.refused
    with printing.show_progress(f"{command.action.capitalize()} …"):
        result = with_app(lambda eb: command.act(eb, confirmed), data_dir)
    report_result(replace(result, refused=(*left_out, *result.refused)), command, output)


def confirm_jobs(preview: ActionResult, command: JobCommand) -> Filter:
    """Ask the user. Jobs that match only later are not among those that were confirmed."""
    if preview.changed:
        are_named = 0 < len(command.names) <= MOST_NAMED
        count = printing.format_count(len(preview.changed), "job")
        jobs = ", ".join(command.names) if are_named else count
        typer.confirm(f"{command.action.capitalize()} {jobs}?", abort=True, err=True)
    return Filter(uids=frozenset(preview.changed))


def report_result(result: ActionResult, command: JobCommand, output: printing.Format) -> None:
    if output is printing.Format.JSON:
        from evenbeat.api.v1.jobs.wire.actions import JobActionOut

        printing.print_model(JobActionOut.from_core(result))
    else:
        print_job_result(result, command)
    # Also with --dry-run: the exit code is that of the real run.
    if result.refused and not command.consent.skip_refused:
        typer.echo(printing.REFUSED, err=True)
        raise typer.Exit(1)


def print_job_result(result: ActionResult, command: JobCommand) -> None:
    is_single = len(command.names) == 1
    jobs = command.names[0] if is_single else printing.format_count(len(result.changed), "job")
    what = f"Would {result.action}" if result.is_dry_run else DONE[result.action]
    if result.changed or not result.refused:
        none = "" if result.changed else ": no job matches"
        typer.echo(f"{what} {jobs}{none}.")
    for refused in result.refused[:MOST_SHOWN]:
        typer.echo(f"Refused: {refused}")
    if len(result.refused) > MOST_SHOWN:
        typer.echo(f"… and {len(result.refused) - MOST_SHOWN} more that refuse.")


@expand_option_sets
def run(
    matching: job_selection.JobMatchOptions,
    consent: ConsentOptions,
    jobs: job_selection.JobsArgument = None,
    everything: All = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Wait for the run of one job; the exit code says how it ended."
        ),
    ] = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Run jobs once, now. Their schedules do not change, and a paused job stays paused.

    With --follow, the exit code is 0 if the run completes and 1 if it does not.

    Example: evenbeat jobs run report --follow
    """
    command = make_job_command(Action.RUN, jobs, everything, matching.filter(), consent)
    if not follow:
        run_job_command(command, data_dir, output)
        return
    if len(command.names) != 1 or consent.dry_run:
        raise typer.BadParameter("follows one job that is named", param_hint="--follow")
    follow_run.run_and_follow(command.names[0], data_dir, output)


def command_for(action: Action) -> Callable[..., None]:
    """The command for an action; all of them take the same options."""

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
