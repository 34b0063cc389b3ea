"""`evenbeat dlq`: lists, acknowledges, requeues and discards dead letters."""

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.jobs.job_options import read_json
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app, with_app_and_time
from evenbeat.cli.shell.completion import complete_jobs
from evenbeat.cli.shell.option_sets import expand_option_sets
from evenbeat.cli.shell.options import ConsentOptions, DataDir, PageOptions
from evenbeat.control.runs.dead_letters import LetterActionResult
from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.ids import read_uid, run_uid
from evenbeat.core.jobs.model import Run
from evenbeat.core.runs.dead_letters import (
    ALLOWED_ACTIONS,
    DeadLetter,
    LetterAction,
    LetterFilter,
    LetterState,
    Remark,
    letter_id,
)

app = typer.Typer(
    help="Dead letters: beats that ran out of attempts.",
    no_args_is_help=True,
)

LetterId = Annotated[
    UUID, typer.Argument(help="The letter's id, as `evenbeat dlq list` shows it.", metavar="ID")
]
Ids = Annotated[
    list[UUID] | None,
    typer.Argument(
        help="Ids, as `evenbeat dlq list` shows them; or choose letters by options.", metavar="ID"
    ),
]
NoteText = Annotated[str | None, typer.Option(help="A note for others.")]

COLUMNS = ("id", "state", "job", "kind", "attempts", "failed_at", "error")
GROUP_COLUMNS = ("signature", "count", "open", "jobs", "kinds", "first_at", "last_at")
RUN_COLUMNS = ("attempt", "started_at", "node", "error")


@dataclass(frozen=True, slots=True)
class LetterMatchOptions:
    """Conditions on letters; a letter must meet all that are given."""

    job: Annotated[
        str | None,
        typer.Option(help="Of this job, by name or id.", autocompletion=complete_jobs),
    ] = None
    kind: Annotated[str | None, typer.Option(help="Of jobs of this kind.")] = None
    group: Annotated[str | None, typer.Option(help="Of jobs of this group.")] = None
    signature: Annotated[
        str | None, typer.Option(help="With this error, as `evenbeat dlq groups` shows it.")
    ] = None
    owned_by: Annotated[str | None, typer.Option(help="With this owner.")] = None
    state: Annotated[
        list[LetterState] | None, typer.Option(help="In this state; may be repeated.")
    ] = None

    @property
    def is_empty(self) -> bool:
        return not any(getattr(self, field.name) for field in fields(self))

    def filter(self, *default: LetterState) -> LetterFilter:
        """In the `default` states if --state is not given; without defaults, in any state."""
        states, uid = self.state or default, read_uid(self.job or "")
        return LetterFilter(
            states=frozenset(states) if states else None,
            job_uid=uid,
            job_name=None if uid else self.job,
            kind=self.kind,
            group=self.group,
            signature=self.signature,
            owner=self.owned_by,
        )


@app.command("list")
@expand_option_sets
def list_letters(
    matching: LetterMatchOptions,
    page: PageOptions,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """List dead letters, unacknowledged ones first.

    Example: evenbeat dlq list --state open --kind http
    """
    found, now = with_app_and_time(
        lambda eb: eb.dead_letters.page(matching.filter(), limit=page.limit, offset=page.offset),
        data_dir,
    )
    if output is printing.Format.JSON:
        from evenbeat.api.v1.runs.wire.dead_letter import LettersOut

        printing.print_model(LettersOut.from_core(found, limit=page.limit, offset=page.offset))
        return
    printing.print_table(COLUMNS, [letter_row(letter, now) for letter in found.letters])
    page.print_rest(len(found.letters), found.total)


@app.command("groups")
@expand_option_sets
def list_groups(
    matching: LetterMatchOptions,
    page: PageOptions,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """List the errors of dead letters, with how often and since when each occurred.

    Errors that differ only in numbers, ids and names count as one.

    Example: evenbeat dlq groups --state open
    """
    found, now = with_app_and_time(
        lambda eb: eb.dead_letters.grouped(matching.filter(), limit=page.limit, offset=page.offset),
        data_dir,
    )
    if output is printing.Format.JSON:
        from evenbeat.api.v1.runs.wire.dead_letter import LetterGroupsOut

        printing.print_model(LetterGroupsOut.from_core(found, limit=page.limit, offset=page.offset))
        return
    rows = [
        (
            *(each.signature, each.count, each.open, each.jobs, ", ".join(each.kinds)),
            *(
                printing.format_moment(each.first_at, now),
                printing.format_moment(each.last_at, now),
            ),
        )
        for each in found.groups
    ]
    printing.print_table(GROUP_COLUMNS, rows)
    page.print_rest(len(found.groups), found.total)


@app.command("show")
def show_letter(
    uid: LetterId, data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE
) -> None:
    """Show a dead letter with its payload and the runs that failed.

    Example: evenbeat dlq show 65626561-7400-8000-8000-00000000002a
    """

    async def work(eb: Evenbeat) -> tuple[DeadLetter, list[Run]]:
        letter = await eb.dead_letters.get(letter_id(uid))
        return letter, await eb.dead_letters.runs(letter)

    (letter, runs), now = with_app_and_time(work, data_dir)
    if output is printing.Format.JSON:
        from evenbeat.api.v1.runs.wire.dead_letter import LetterDetailOut

        printing.print_model(LetterDetailOut.from_parts(letter, runs))
        return
    printing.print_fields(letter_fields(letter, now))
    if runs:
        typer.echo()
        printing.print_table(
            RUN_COLUMNS,
            [
                (run.attempt, printing.format_moment(run.started_at, now), run.node, run.error)
                for run in runs
            ],
        )


@app.command()
@expand_option_sets
def ack(
    matching: LetterMatchOptions,
    consent: ConsentOptions,
    ids: Ids = None,
    note: NoteText = None,
    owner: Annotated[str | None, typer.Option(help="Who is responsible from now on.")] = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Acknowledge dead letters. Asks first, unless you name them.

    Example: evenbeat dlq ack --signature "out of disk" --note "a larger disk is ordered"
    """
    action = LetterAction.ACKNOWLEDGE
    command = LetterCommand(
        action, letter_filter(action, ids, matching), Remark(note, owner), consent
    )
    run_letter_command(command, data_dir, output)


@app.command()
@expand_option_sets
def requeue(
    matching: LetterMatchOptions,
    consent: ConsentOptions,
    ids: Ids = None,
    payload: Annotated[
        str | None,
        typer.Option(help="Another payload, for one letter: JSON, @FILE, or - for standard input."),
    ] = None,
    note: NoteText = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Run dead letters again, now: by their own jobs, or as new jobs that run once.

    Asks first, unless you name them.

    Example: evenbeat dlq requeue --job report --state open
    """
    if payload is None:
        action = LetterAction.REQUEUE
        command = LetterCommand(action, letter_filter(action, ids, matching), Remark(note), consent)
        run_letter_command(command, data_dir, output)
        return
    if ids is None or len(ids) != 1 or consent.dry_run or not matching.is_empty:
        raise typer.BadParameter(
            "can be used only with one letter, named by its id", param_hint="--payload"
        )
    number, given = letter_id(ids[0]), read_json(payload, "--payload")
    letter = with_app(
        lambda eb: eb.dead_letters.requeue(number, Remark(note), payload=given, by=cli_actor()),
        data_dir,
    )
    if output is printing.Format.JSON:
        from evenbeat.api.v1.runs.wire.dead_letter import LetterOut

        printing.print_model(LetterOut.from_core(letter))
    else:
        typer.echo(f"Requeued {run_uid(letter.id)} as the job {letter.requeued_as}.")


@app.command()
@expand_option_sets
def discard(
    matching: LetterMatchOptions,
    consent: ConsentOptions,
    ids: Ids = None,
    note: NoteText = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Discard dead letters for good. Asks first.

    Example: evenbeat dlq discard --kind mail --state acknowledged --dry-run
    """
    action = LetterAction.DISCARD
    command = LetterCommand(action, letter_filter(action, ids, matching), Remark(note), consent)
    run_letter_command(command, data_dir, output)


@dataclass(frozen=True, slots=True)
class LetterCommand:
    """An action on letters: on those that are named, or on all that match."""

    action: LetterAction
    filter: LetterFilter
    remark: Remark
    consent: ConsentOptions

    @property
    def needs_consent(self) -> bool:
        """Before letters are discarded, or where they were not named one by one."""
        needs_care = self.action is LetterAction.DISCARD or self.filter.ids is None
        return needs_care and not self.consent.yes

    async def dry_run(self, eb: Evenbeat) -> LetterActionResult:
        """What the action would do; NotFound if a named letter does not exist."""
        preview = await self._act(eb, self.filter, dry_run=True)
        existing = {*preview.changed, *(each.id for each in preview.refused)}
        for missing in sorted((self.filter.ids or frozenset()) - existing):
            raise NotFound(f"no dead letter {run_uid(missing)}: nothing was done")
        return preview

    async def act(self, eb: Evenbeat, preview: LetterActionResult) -> LetterActionResult:
        """Act on the letters of the preview only; letters that match later were not confirmed."""
        return await self._act(eb, LetterFilter(ids=frozenset(preview.changed)), dry_run=False)

    async def _act(
        self, eb: Evenbeat, letters: LetterFilter, *, dry_run: bool
    ) -> LetterActionResult:
        return await eb.dead_letters.act(
            self.action,
            letters,
            self.remark,
            by=cli_actor(),
            dry_run=dry_run,
            skip_refused=self.consent.skip_refused,
        )


def run_letter_command(
    command: LetterCommand, data_dir: str | None, output: printing.Format
) -> None:
    preview = with_app(command.dry_run, data_dir)
    is_refused = bool(preview.refused) and not command.consent.skip_refused
    if command.consent.dry_run or is_refused or not preview.changed:
        print_letter_result(preview, output)
        # Also with --dry-run: the exit code is that of the real run.
        if is_refused:
            typer.echo(printing.REFUSED, err=True)
            raise typer.Exit(1)
        return
    if command.needs_consent:
        letters = printing.format_count(len(preview.changed), "dead letter")
        typer.confirm(f"{command.action.capitalize()} {letters}?", abort=True, err=True)
    result = with_app(lambda eb: command.act(eb, preview), data_dir)
    print_letter_result(replace(result, refused=(*preview.refused, *result.refused)), output)


def print_letter_result(result: LetterActionResult, output: printing.Format) -> None:
    if output is printing.Format.JSON:
        from evenbeat.api.v1.runs.wire.dead_letter import LetterActionOut

        printing.print_model(LetterActionOut.from_core(result))
        return
    done = f"would {result.action}" if result.is_dry_run else str(result.action)
    rows = [
        *((run_uid(each), done) for each in result.changed),
        *((run_uid(each.id), f"refused: {each.error}") for each in result.refused),
    ]
    if rows:
        printing.print_table(("id", "done"), rows)
    else:
        typer.echo("No dead letter matches.")


def letter_filter(
    action: LetterAction, ids: list[UUID] | None, matching: LetterMatchOptions
) -> LetterFilter:
    """The named letters, or those that match; without --state, in every state that allows it."""
    if ids and not matching.is_empty:
        raise typer.BadParameter("name letters or choose them by options, not both")
    if ids:
        return LetterFilter(ids=frozenset(map(letter_id, ids)))
    if matching.is_empty:
        raise typer.BadParameter(
            "say which letters: name them, or choose them by options such as --job or --state"
        )
    return matching.filter(
        *(state for state, allowed in ALLOWED_ACTIONS.items() if action in allowed)
    )


def letter_row(letter: DeadLetter, now: datetime) -> tuple[Any, ...]:
    return (
        run_uid(letter.id),
        letter.state,
        letter.job_name or letter.job_uid,
        letter.kind,
        letter.attempts,
        printing.format_moment(letter.created_at, now),
        letter.error,
    )


def letter_fields(letter: DeadLetter, now: datetime) -> dict[str, Any]:
    return {
        "id": run_uid(letter.id),
        "state": letter.state,
        "job": letter.job_name,
        "job id": letter.job_uid,
        "kind": letter.kind,
        "group": letter.group_key,
        "payload": printing.format_json(letter.payload),
        "beat": printing.format_moment(letter.beat_at, now),
        "attempts": letter.attempts,
        "error": letter.error,
        "signature": letter.signature,
        "failed": printing.format_moment(letter.created_at, now),
        "acknowledged": printing.format_moment(letter.acknowledged_at, now),
        "acknowledged by": letter.acknowledged_by,
        "owner": letter.owner,
        "note": letter.note,
        "ended": printing.format_moment(letter.ended_at, now),
        "ended by": letter.ended_by,
        "requeued as": letter.requeued_as,
    }
