"""`evenbeat dlq`: dead letters, looked through, acknowledged, requeued, discarded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli import show
from evenbeat.cli.opened import me, with_app
from evenbeat.cli.options import DataDir, DryRun, Yes
from evenbeat.cli.written import read_json
from evenbeat.control.dead_letters import LetterTally
from evenbeat.core.dead_letters import (
    ALLOWED,
    DeadLetter,
    LetterAction,
    LetterFilter,
    LetterState,
    Remark,
)
from evenbeat.core.errors import InvalidInput, NotFound
from evenbeat.core.ids import run_id, run_uid
from evenbeat.core.model import Run

app = typer.Typer(help="Beats that ran out of attempts.", no_args_is_help=True)

LetterId = Annotated[UUID, typer.Argument(help="As `evenbeat dlq list` shows it.")]
Ids = Annotated[list[UUID] | None, typer.Argument(help="Letters; or choose them by options.")]
JobName = Annotated[str | None, typer.Option("--job", help="Of the job of this name.")]
Kind = Annotated[str | None, typer.Option(help="Of jobs of this kind.")]
GroupKey = Annotated[str | None, typer.Option("--group", help="Of jobs of this group.")]
OwnedBy = Annotated[str | None, typer.Option(help="Those that this owner sees to.")]
Signature = Annotated[str | None, typer.Option(help="As `evenbeat dlq groups` shows it.")]
States = Annotated[
    list[LetterState] | None, typer.Option("--state", help="In this state; give it again for more.")
]
StatesToActOn = Annotated[
    list[LetterState] | None,
    typer.Option("--state", help="Only in this state; unset: in each that allows it."),
]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")]
NoteText = Annotated[str | None, typer.Option(help="What there is to say about it.")]
Owner = Annotated[str | None, typer.Option(help="Who sees to it.")]

# Options that say what letters have in common, and the conditions that they stand for.
CONDITIONS = {
    "job": "job_name",
    "kind": "kind",
    "group": "group",
    "signature": "signature",
    "owned_by": "owner",
}
OPTIONS = [f"--{name.replace('_', '-')}" for name in (*CONDITIONS, "state")]
COLUMNS = ("id", "state", "job", "kind", "attempts", "failed_at", "error")
GROUP_COLUMNS = ("signature", "count", "open", "jobs", "kinds", "first_at", "last_at")


@app.command("list")
def list_letters(
    job: JobName = None,
    kind: Kind = None,
    group: GroupKey = None,
    signature: Signature = None,
    owned_by: OwnedBy = None,
    state: States = None,
    limit: Limit = 50,
    data_dir: DataDir = None,
    output: show.Output = show.Format.TABLE,
) -> None:
    """List dead letters, those that nobody has acknowledged first."""
    chosen = chosen_by(locals())
    page = with_app(lambda eb: eb.dead_letters.page(chosen, limit=limit), data_dir)
    show.rows(COLUMNS, [row_of(letter) for letter in page.letters], output)


@app.command("groups")
def list_groups(
    job: JobName = None,
    kind: Kind = None,
    group: GroupKey = None,
    owned_by: OwnedBy = None,
    state: States = None,
    limit: Limit = 50,
    data_dir: DataDir = None,
    output: show.Output = show.Format.TABLE,
) -> None:
    """List what went wrong, with how often and how long it has."""
    chosen = chosen_by(locals())
    page = with_app(lambda eb: eb.dead_letters.grouped(chosen, limit=limit), data_dir)
    rows = [[getattr(group, column) for column in GROUP_COLUMNS] for group in page.groups]
    show.rows(GROUP_COLUMNS, rows, output)


@app.command("show")
def show_letter(
    letter_id: LetterId, data_dir: DataDir = None, output: show.Output = show.Format.TABLE
) -> None:
    """Show a dead letter with its payload and the runs that failed."""

    async def work(eb: Evenbeat) -> tuple[DeadLetter, list[Run]]:
        letter = await eb.dead_letters.get(run_id(letter_id))
        return letter, await eb.dead_letters.runs(letter)

    letter, runs = with_app(work, data_dir)
    tries = [
        {"attempt": run.attempt, "started_at": run.started_at, "node": run.node, "error": run.error}
        for run in runs
    ]
    if output is show.Format.JSON:
        show.json(facts(letter) | {"runs": tries})
        return
    show.rows(("field", "value"), list(facts(letter).items()), output)
    typer.echo()
    show.rows(("attempt", "started_at", "node", "error"), [list(t.values()) for t in tries], output)


@app.command()
def ack(
    ids: Ids = None,
    job: JobName = None,
    kind: Kind = None,
    group: GroupKey = None,
    signature: Signature = None,
    owned_by: OwnedBy = None,
    state: StatesToActOn = None,
    note: NoteText = None,
    owner: Owner = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    data_dir: DataDir = None,
    output: show.Output = show.Format.TABLE,
) -> None:
    """Say that you have seen these dead letters; asks first, unless you name them."""
    chosen = chosen_for(LetterAction.ACKNOWLEDGE, locals())
    fulfil(
        Wish(LetterAction.ACKNOWLEDGE, chosen, Remark(note, owner), dry_run, yes), data_dir, output
    )


@app.command()
def requeue(
    ids: Ids = None,
    job: JobName = None,
    kind: Kind = None,
    group: GroupKey = None,
    signature: Signature = None,
    owned_by: OwnedBy = None,
    state: StatesToActOn = None,
    payload: Annotated[
        str | None,
        typer.Option(help="To run one letter with, instead of its own: JSON, @FILE, or -."),
    ] = None,
    note: NoteText = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    data_dir: DataDir = None,
    output: show.Output = show.Format.TABLE,
) -> None:
    """Run these dead letters again, now: by their own jobs, or by new ones that run once.

    Asks first, unless you name them.
    """
    if payload is None:
        chosen = chosen_for(LetterAction.REQUEUE, locals())
        fulfil(Wish(LetterAction.REQUEUE, chosen, Remark(note), dry_run, yes), data_dir, output)
        return
    if ids is None or len(ids) != 1 or dry_run or is_matching(locals()):
        raise InvalidInput("--payload", "goes with one letter, and with nothing but a note")
    letter_id, given = run_id(ids[0]), read_json(payload, "--payload")
    letter = with_app(
        lambda eb: eb.dead_letters.requeue(letter_id, Remark(note), payload=given, by=me()),
        data_dir,
    )
    show.rows(("id", "requeued_as"), [(run_uid(letter.id), letter.requeued_as)], output)


@app.command()
def discard(
    ids: Ids = None,
    job: JobName = None,
    kind: Kind = None,
    group: GroupKey = None,
    signature: Signature = None,
    owned_by: OwnedBy = None,
    state: StatesToActOn = None,
    note: NoteText = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    data_dir: DataDir = None,
    output: show.Output = show.Format.TABLE,
) -> None:
    """Do nothing more about these dead letters, for good; asks first."""
    chosen = chosen_for(LetterAction.DISCARD, locals())
    fulfil(Wish(LetterAction.DISCARD, chosen, Remark(note), dry_run, yes), data_dir, output)


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants done, and to which letters: those named, or all that match."""

    action: LetterAction
    chosen: LetterFilter
    remark: Remark
    dry_run: bool
    yes: bool

    @property
    def needs_consent(self) -> bool:
        """To end letters for good, or to touch some that were not named one by one."""
        is_weighty = self.action is LetterAction.DISCARD or self.chosen.ids is None
        return is_weighty and not self.yes

    async def look(self, eb: Evenbeat) -> LetterTally:
        """What would be done, if all that are named are there."""
        found = await self._act(eb, self.chosen, dry_run=True)
        there = {*found.changed, *(each.id for each in found.refused)}
        for missing in sorted((self.chosen.ids or frozenset()) - there):
            raise NotFound(f"no dead letter {run_uid(missing)}: nothing was done")
        return found

    async def act(self, eb: Evenbeat, found: LetterTally) -> LetterTally:
        """Only what was looked at; what comes to match meanwhile was not asked about."""
        return await self._act(eb, LetterFilter(ids=frozenset(found.changed)), dry_run=False)

    async def _act(self, eb: Evenbeat, chosen: LetterFilter, *, dry_run: bool) -> LetterTally:
        return await eb.dead_letters.act(self.action, chosen, self.remark, by=me(), dry_run=dry_run)


def fulfil(wish: Wish, data_dir: str | None, output: show.Format) -> None:
    found = with_app(wish.look, data_dir)
    if wish.dry_run or found.refused or not found.changed:
        show.rows(("id", "done"), outcome_of(found), output)
        # As it would end without --dry-run.
        if found.refused:
            typer.echo("Nothing is done while one refuses.", err=True)
            raise typer.Exit(1)
        return
    if wish.needs_consent:
        what = show.count(len(found.changed), "dead letter")
        typer.confirm(f"{wish.action.capitalize()} {what}?", abort=True, err=True)
    done = with_app(lambda eb: wish.act(eb, found), data_dir)
    show.rows(("id", "done"), outcome_of(done), output)


def outcome_of(tally: LetterTally) -> list[tuple[Any, str]]:
    done = f"would {tally.action}" if tally.is_dry_run else str(tally.action)
    return [
        *((run_uid(each), done) for each in tally.changed),
        *((run_uid(each.id), f"refused: {each.error}") for each in tally.refused),
    ]


def chosen_for(action: LetterAction, given: Mapping[str, Any]) -> LetterFilter:
    """Those that are named; or of those that match, the ones that allow the action."""
    if given["ids"]:
        if is_matching(given):
            raise InvalidInput("letters", "name them, or choose them by options: not both")
        return LetterFilter(ids=frozenset(map(run_id, given["ids"])))
    if not is_matching(given):
        raise InvalidInput("letters", f"name them, or choose them by {', '.join(OPTIONS)}")
    allowing = [state for state, allowed in ALLOWED.items() if action in allowed]
    return chosen_by({**given, "state": given["state"] or allowing})


def is_matching(given: Mapping[str, Any]) -> bool:
    """Whether letters are chosen by what they have in common."""
    return any(given.get(name) for name in (*CONDITIONS, "state"))


def chosen_by(given: Mapping[str, Any]) -> LetterFilter:
    """By the options of a command, under their names."""
    states = frozenset(given["state"]) if given["state"] else None
    return LetterFilter(
        states=states, **{field: given.get(name) for name, field in CONDITIONS.items()}
    )


def row_of(letter: DeadLetter) -> tuple[Any, ...]:
    return (
        run_uid(letter.id),
        letter.state,
        letter.job_name or letter.job_uid,
        letter.kind,
        letter.attempts,
        letter.created_at,
        letter.error,
    )


def facts(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": run_uid(letter.id),
        "state": letter.state,
        "job_id": letter.job_uid,
        "job_name": letter.job_name,
        "kind": letter.kind,
        "group": letter.group_key,
        "payload": letter.payload,
        "beat_at": letter.beat_at,
        "attempts": letter.attempts,
        "error": letter.error,
        "signature": letter.signature,
        "failed_at": letter.created_at,
        "acknowledged_at": letter.acknowledged_at,
        "acknowledged_by": letter.acknowledged_by,
        "owner": letter.owner,
        "note": letter.note,
        "ended_at": letter.ended_at,
        "ended_by": letter.ended_by,
        "requeued_as": letter.requeued_as,
    }
