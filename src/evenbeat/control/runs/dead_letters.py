"""Dead letters as people handle them: looked through, acknowledged, requeued, discarded.

As with jobs, one is many of one: the letters are locked in the order of their ids, what becomes of
each is decided, and all of it is written with its audit in one transaction, or nothing is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from evenbeat.control.jobs.actions import MOST_AT_ONCE, MOST_NAMED
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.control.runs.requeue import (
    LetterToRequeue,
    RequeuePlan,
    RequeueResult,
    plan_requeue,
    requeue_letters,
)
from evenbeat.core.errors import Conflict, InvalidInput, NotFound
from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.jobs.model import Run
from evenbeat.core.ops.audit import PYTHON, Actor, NewAuditEntry
from evenbeat.core.runs.dead_letters import (
    EVERY_LETTER,
    NO_REMARK,
    STATE_AFTER,
    DeadLetter,
    LetterAction,
    LetterFilter,
    LetterGroup,
    Remark,
)
from evenbeat.observe import log
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.ops import audit
from evenbeat.store.runs import dead_letters

ORIGINAL_PAYLOAD: Final = object()
"""Requeue with the payload of the letter."""


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Some letters, those that nobody has acknowledged first, and how many match."""

    letters: list[DeadLetter]
    total: int


@dataclass(frozen=True, slots=True)
class LetterGroupPage:
    """Some signatures, those with most open letters first, and how many there are."""

    groups: list[LetterGroup]
    total: int


@dataclass(frozen=True, slots=True)
class RefusedLetter:
    """A letter that does not allow the action now, and why."""

    id: int
    error: Conflict


@dataclass(frozen=True, slots=True)
class LetterActionResult:
    """What an action did, or with `is_dry_run` would have done."""

    action: LetterAction
    changed: tuple[int, ...]
    refused: tuple[RefusedLetter, ...]
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class LetterActionRequest:
    """What somebody wants done to letters."""

    action: LetterAction
    remark: Remark
    by: Actor
    payload: Any = ORIGINAL_PAYLOAD

    def of(self, letter: DeadLetter, terms: Mapping[str, Any]) -> LetterToRequeue:
        is_as_it_was = self.payload is ORIGINAL_PAYLOAD
        return LetterToRequeue(letter, terms, letter.payload if is_as_it_was else self.payload)


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """Letters that allow an action, those that refuse and why, and how to requeue the former."""

    ready: Sequence[DeadLetter]
    refused: Mapping[int, Conflict]
    plan: RequeuePlan | None


class DeadLetters:
    """The dead letters of one database."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database = database
        self._jobs = jobs

    async def page(
        self, chosen: LetterFilter = EVERY_LETTER, *, limit: int = 50, offset: int = 0
    ) -> LetterPage:
        found = await dead_letters.list_letters(self._database, chosen, limit=limit, offset=offset)
        return LetterPage(found, await dead_letters.count_letters(self._database, chosen))

    async def grouped(
        self, chosen: LetterFilter = EVERY_LETTER, *, limit: int = 50, offset: int = 0
    ) -> LetterGroupPage:
        """By the signature of their errors."""
        found = await dead_letters.list_letter_groups(
            self._database, chosen, limit=limit, offset=offset
        )
        return LetterGroupPage(
            found, await dead_letters.count_letter_groups(self._database, chosen)
        )

    async def get(self, letter_id: int) -> DeadLetter:
        return await dead_letters.find_letter(self._database, letter_id)

    async def runs(self, letter: DeadLetter) -> list[Run]:
        """The tries at its beat, the last first, as long as runs are kept."""
        return await dead_letters.list_letter_runs(self._database, letter)

    async def acknowledge(
        self, letter_id: int, remark: Remark = NO_REMARK, *, by: Actor = PYTHON
    ) -> DeadLetter:
        """Somebody has seen it: once, the second is told who was first."""
        return await self._do(letter_id, LetterActionRequest(LetterAction.ACKNOWLEDGE, remark, by))

    async def requeue(
        self,
        letter_id: int,
        remark: Remark = NO_REMARK,
        *,
        payload: Any = ORIGINAL_PAYLOAD,
        by: Actor = PYTHON,
    ) -> DeadLetter:
        """Run it again, now, as it was or with another payload; `requeued_as` says which job does.

        Its own job does where it still says the same; else a new one, that runs once.
        """
        return await self._do(
            letter_id, LetterActionRequest(LetterAction.REQUEUE, remark, by, payload)
        )

    async def discard(
        self, letter_id: int, remark: Remark = NO_REMARK, *, by: Actor = PYTHON
    ) -> DeadLetter:
        """Nothing more will be done about it."""
        return await self._do(letter_id, LetterActionRequest(LetterAction.DISCARD, remark, by))

    async def act(
        self,
        action: LetterAction,
        chosen: LetterFilter,
        remark: Remark = NO_REMARK,
        *,
        by: Actor = PYTHON,
        dry_run: bool = False,
        skip_refused: bool = False,
    ) -> LetterActionResult:
        """Do it to every letter that is meant, up to 10,000: to all of them or to none.

        `dry_run` only says what would happen; `skip_refused` leaves out those that refuse.
        """
        wish = LetterActionRequest(action, remark, by)
        if not dry_run:
            return await self._perform(wish, chosen, skip_refused=skip_refused)
        found = await select_letters(self._database, wish, chosen, locked=False)
        return letter_action_result(wish, found, is_dry_run=True)

    async def _do(self, letter_id: int, wish: LetterActionRequest) -> DeadLetter:
        done = await self._perform(wish, LetterFilter.one(letter_id), skip_refused=False)
        if not done.changed:
            raise NotFound(f"no dead letter {run_uid(letter_id)}")
        return await self.get(letter_id)

    async def _perform(
        self, wish: LetterActionRequest, chosen: LetterFilter, *, skip_refused: bool
    ) -> LetterActionResult:
        rerun: RequeueResult | None = None
        async with self._database.transaction() as session:
            found = await select_letters(session, wish, chosen, locked=True)
            if found.refused and not skip_refused:
                raise letter_refusal_error(wish, found)
            if found.plan is not None:
                rerun = await requeue_letters(session, self._jobs, found.plan, by=wish.by)
            await write_letter_changes(session, wish, found.ready, rerun)
        if rerun is not None:
            await rerun.finish(self._database)
        for letter in found.ready:
            log.get_logger().info(
                log.LETTER_CHANGED,
                letter_id=str(run_uid(letter.id)),
                action=wish.action,
                actor=wish.by.name,
            )
        return letter_action_result(wish, found)


async def select_letters(
    session: Session, wish: LetterActionRequest, chosen: LetterFilter, *, locked: bool
) -> LetterSelection:
    """Whom the filter means: those that allow it, and those that refuse."""
    found = await dead_letters.select_letters(
        session, chosen, limit=MOST_AT_ONCE + 1, locked=locked
    )
    if len(found) > MOST_AT_ONCE:
        raise InvalidInput("filter", f"finds more than {MOST_AT_ONCE} letters: narrow it down")
    refused: dict[int, Conflict] = {}
    for letter, _ in found:
        try:
            letter.check(wish.action)
        except Conflict as error:
            refused[letter.id] = error
    planned: RequeuePlan | None = None
    if wish.action is LetterAction.REQUEUE:
        wanted = [wish.of(*each) for each in found if each[0].id not in refused]
        planned = await plan_requeue(session, wanted, locked=locked)
        refused |= planned.refused
    ready = [letter for letter, _ in found if letter.id not in refused]
    return LetterSelection(ready, refused, planned)


async def write_letter_changes(
    session: Session,
    wish: LetterActionRequest,
    ready: Sequence[DeadLetter],
    rerun: RequeueResult | None,
) -> None:
    """What becomes of the letters, and the audit of it."""
    if not ready:
        return
    ids = [letter.id for letter in ready]
    jobs: Mapping[int, UUID] = rerun.jobs if rerun else {}
    if wish.action is LetterAction.ACKNOWLEDGE:
        await dead_letters.acknowledge_letters(session, ids, wish.remark, by=wish.by)
    else:
        await dead_letters.end_letters(
            session,
            ids,
            STATE_AFTER[wish.action],
            wish.remark,
            by=wish.by,
            requeued_as=[jobs[each] for each in ids] if jobs else (),
        )
    notes = [letter_note(wish, letter, jobs.get(letter.id)) for letter in ready]
    await audit.write_audit(session, notes, by=wish.by)


def letter_note(wish: LetterActionRequest, letter: DeadLetter, job: UUID | None) -> NewAuditEntry:
    told = {
        "note": wish.remark.note,
        "owner": wish.remark.owner,
        "requeued_as": None if job is None else str(job),
    }
    after: dict[str, Any] = {
        "dead_letter": str(run_uid(letter.id)),
        "state": STATE_AFTER[wish.action],
    }
    after |= {name: value for name, value in told.items() if value is not None}
    if wish.payload is not ORIGINAL_PAYLOAD:
        after["is_edited"] = True
    return NewAuditEntry(
        wish.action,
        {"state": letter.state},
        after,
        letter.job_id,
        letter.job_uid,
        letter.job_name,
    )


def letter_refusal_error(wish: LetterActionRequest, found: LetterSelection) -> Conflict:
    """Of one letter, what it says itself; of many, which they are."""
    errors, total = list(found.refused.values()), len(found.refused) + len(found.ready)
    if total == 1:
        return errors[0]
    named = "; ".join(
        f"{run_uid(each)}: {error}" for each, error in list(found.refused.items())[:MOST_NAMED]
    )
    more = f"; and {len(errors) - MOST_NAMED} more" if len(errors) > MOST_NAMED else ""
    return Conflict(
        f"cannot {wish.action} {len(errors)} of {total} dead letters, so none was changed:"
        f" {named}{more}"
    )


def letter_action_result(
    wish: LetterActionRequest, found: LetterSelection, *, is_dry_run: bool = False
) -> LetterActionResult:
    return LetterActionResult(
        wish.action,
        tuple(letter.id for letter in found.ready),
        tuple(RefusedLetter(*each) for each in found.refused.items()),
        is_dry_run,
    )
