"""Dead letters as people handle them: list, acknowledge, requeue, discard.

control/bulk_action has the steps that actions on letters share with those on jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from evenbeat.control.bulk_action import (
    BulkAction,
    BulkDecision,
    BulkResult,
    Refusal,
    run_bulk_action,
)
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.control.runs.requeue import (
    LetterToRequeue,
    RequeuePlan,
    RequeueResult,
    plan_requeue,
    requeue_letters,
)
from evenbeat.core.errors import Conflict, NotFound
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
from evenbeat.store.runs import dead_letters
from evenbeat.store.runs.dead_letters import FoundLetter

ORIGINAL_PAYLOAD: Final = object()
"""Requeue with the payload of the letter."""

LetterActionResult = BulkResult[LetterAction, int]
LetterDecision = BulkDecision[DeadLetter, int]


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Some letters, open ones first, and how many match."""

    letters: list[DeadLetter]
    total: int


@dataclass(frozen=True, slots=True)
class LetterGroupPage:
    """Some signatures, those with most open letters first, and how many there are."""

    groups: list[LetterGroup]
    total: int


class LetterActionRequest(BulkAction[LetterAction, FoundLetter, DeadLetter, int]):
    """One action on all letters that a filter matches."""

    noun = "dead letters"

    def __init__(
        self,
        action: LetterAction,
        chosen: LetterFilter,
        remark: Remark,
        *,
        jobs: Jobs,
        by: Actor,
        payload: Any = ORIGINAL_PAYLOAD,
    ) -> None:
        super().__init__(action, by)
        self._chosen = chosen
        self._remark = remark
        self._jobs = jobs
        self._payload = payload
        self._plan: RequeuePlan | None = None
        self._requeued: RequeueResult | None = None

    async def find(self, session: Session, *, limit: int, locked: bool) -> Sequence[FoundLetter]:
        return await dead_letters.select_letters(session, self._chosen, limit=limit, locked=locked)

    async def decide(
        self, session: Session, found: Sequence[FoundLetter], *, locked: bool
    ) -> LetterDecision:
        errors: dict[int, Conflict] = {}
        for letter, _ in found:
            try:
                letter.check(self.action)
            except Conflict as error:
                errors[letter.id] = error
        if self.action is LetterAction.REQUEUE:
            wanted = [self.letter_to_requeue(*each) for each in found if each[0].id not in errors]
            self._plan = await plan_requeue(session, wanted, locked=locked)
            errors |= self._plan.refused
        ready = [letter for letter, _ in found if letter.id not in errors]
        refused = [Refusal(each, str(run_uid(each)), error) for each, error in errors.items()]
        return BulkDecision(ready, tuple(refused))

    def letter_to_requeue(self, letter: DeadLetter, terms: Mapping[str, Any]) -> LetterToRequeue:
        is_original = self._payload is ORIGINAL_PAYLOAD
        return LetterToRequeue(letter, terms, letter.payload if is_original else self._payload)

    async def write(self, session: Session, ready: Sequence[DeadLetter]) -> None:
        ids = [letter.id for letter in ready]
        if self.action is LetterAction.ACKNOWLEDGE:
            await dead_letters.acknowledge_letters(session, ids, self._remark, by=self.by)
            return
        if self._plan is not None:
            self._requeued = await requeue_letters(session, self._jobs, self._plan, by=self.by)
        await dead_letters.end_letters(
            session,
            ids,
            STATE_AFTER[self.action],
            self._remark,
            by=self.by,
            requeued_as=[self._requeued.jobs[each] for each in ids] if self._requeued else (),
        )

    def id_of(self, decided: DeadLetter) -> int:
        return decided.id

    def audit_entry(self, decided: DeadLetter) -> NewAuditEntry:
        job: UUID | None = self._requeued.jobs.get(decided.id) if self._requeued else None
        remarks = {
            "note": self._remark.note,
            "owner": self._remark.owner,
            "requeued_as": None if job is None else str(job),
        }
        after: dict[str, Any] = {
            "dead_letter": str(run_uid(decided.id)),
            "state": STATE_AFTER[self.action],
        }
        after |= {name: value for name, value in remarks.items() if value is not None}
        if self._payload is not ORIGINAL_PAYLOAD:
            after["is_edited"] = True
        return NewAuditEntry(
            self.action,
            {"state": decided.state},
            after,
            decided.job_id,
            decided.job_uid,
            decided.job_name,
        )

    def log_entry(self, decided: DeadLetter) -> tuple[str, dict[str, Any]]:
        return log.LETTER_CHANGED, {"letter_id": str(run_uid(decided.id))}

    async def after_commit(self, database: Database, ready: Sequence[DeadLetter]) -> None:
        if self._requeued is not None:
            await self._requeued.finish(database)


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
        """The attempts at its beat, the last first, as long as runs are kept."""
        return await dead_letters.list_letter_runs(self._database, letter)

    async def acknowledge(
        self, letter_id: int, remark: Remark = NO_REMARK, *, by: Actor = PYTHON
    ) -> DeadLetter:
        """Say that you have seen it. A second caller is refused, and told who was first."""
        return await self._act_on_one(LetterAction.ACKNOWLEDGE, letter_id, remark, by)

    async def requeue(
        self,
        letter_id: int,
        remark: Remark = NO_REMARK,
        *,
        payload: Any = ORIGINAL_PAYLOAD,
        by: Actor = PYTHON,
    ) -> DeadLetter:
        """Run it again, now, as it was or with another payload; `requeued_as` says which job does.

        Its own job does, if that job still has this payload; else a new job that runs once.
        """
        return await self._act_on_one(LetterAction.REQUEUE, letter_id, remark, by, payload)

    async def discard(
        self, letter_id: int, remark: Remark = NO_REMARK, *, by: Actor = PYTHON
    ) -> DeadLetter:
        """Do nothing more about it, for good."""
        return await self._act_on_one(LetterAction.DISCARD, letter_id, remark, by)

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
        """Do it to every letter that matches, up to 10,000: to all of them or to none.

        `dry_run` only says what would happen; `skip_refused` leaves out those that refuse.
        """
        request = LetterActionRequest(action, chosen, remark, jobs=self._jobs, by=by)
        return await run_bulk_action(
            self._database, request, dry_run=dry_run, skip_refused=skip_refused
        )

    async def _act_on_one(
        self,
        action: LetterAction,
        letter_id: int,
        remark: Remark,
        by: Actor,
        payload: Any = ORIGINAL_PAYLOAD,
    ) -> DeadLetter:
        chosen = LetterFilter.one(letter_id)
        request = LetterActionRequest(
            action, chosen, remark, jobs=self._jobs, by=by, payload=payload
        )
        if not (await run_bulk_action(self._database, request)).changed:
            raise NotFound(f"no dead letter {run_uid(letter_id)}")
        return await self.get(letter_id)
