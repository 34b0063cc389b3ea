"""Dead letters: beats that ran out of attempts, and what people may do about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from evenbeat.core.errors import Conflict, InvalidInput, NotFound
from evenbeat.core.jobs.ids import run_id
from evenbeat.core.jobs.model import ErrorClass
from evenbeat.core.jobs.payload import check_text
from evenbeat.core.limits import LONGEST_NOTE, LONGEST_OWNER


class LetterState(StrEnum):
    """Where a letter is: new, seen by a person, or dealt with."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    REQUEUED = "requeued"
    DISCARDED = "discarded"


class LetterAction(StrEnum):
    """What people may do to a letter."""

    ACKNOWLEDGE = "acknowledge"
    REQUEUE = "requeue"
    DISCARD = "discard"


STATE_AFTER: Mapping[LetterAction, LetterState] = {
    LetterAction.ACKNOWLEDGE: LetterState.ACKNOWLEDGED,
    LetterAction.REQUEUE: LetterState.REQUEUED,
    LetterAction.DISCARD: LetterState.DISCARDED,
}
ALLOWED_ACTIONS: Mapping[LetterState, tuple[LetterAction, ...]] = {
    LetterState.OPEN: tuple(LetterAction),
    LetterState.ACKNOWLEDGED: (LetterAction.REQUEUE, LetterAction.DISCARD),
    LetterState.REQUEUED: (),
    LetterState.DISCARDED: (),
}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A beat that ran out of attempts. Its id is that of the run that failed last."""

    id: int
    job_id: int
    # None: the letter was written before letters had this field.
    job_uid: UUID | None
    job_name: str | None
    kind: str
    group_key: str | None
    payload: Any
    # None: a run by hand.
    beat_at: datetime | None
    attempts: int
    error_class: ErrorClass | None
    error: str | None
    signature: str
    created_at: datetime
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    note: str | None = None
    owner: str | None = None
    ending: LetterState | None = None
    ended_at: datetime | None = None
    ended_by: str | None = None
    requeued_as: UUID | None = None

    @property
    def state(self) -> LetterState:
        if self.ending is not None:
            return self.ending
        return LetterState.OPEN if self.acknowledged_at is None else LetterState.ACKNOWLEDGED

    @property
    def allowed(self) -> tuple[LetterAction, ...]:
        return ALLOWED_ACTIONS[self.state]

    def check(self, action: LetterAction) -> None:
        """Raise Conflict unless the action is allowed; it names the person who acted before."""
        if action not in self.allowed:
            by, at = self.ended_by or self.acknowledged_by, self.ended_at or self.acknowledged_at
            raise Conflict(
                f"cannot {action} a dead letter that was {self.state} by {by}"
                f" at {at:%Y-%m-%dT%H:%M:%SZ}; allowed now: {', '.join(self.allowed) or 'nothing'}"
            )


@dataclass(frozen=True, slots=True)
class Remark:
    """What a person gives with an action: a note, and who will deal with the letter."""

    note: str | None = None
    owner: str | None = None

    def __post_init__(self) -> None:
        for field, longest in (("note", LONGEST_NOTE), ("owner", LONGEST_OWNER)):
            text = getattr(self, field)
            if text is None:
                continue
            check_text(text, field)
            if not 1 <= len(text) <= longest:
                raise InvalidInput(field, f"must have from 1 to {longest} characters")


NO_REMARK = Remark()


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Every condition that is given must hold; none given means every letter there is."""

    ids: frozenset[int] | None = None
    states: frozenset[LetterState] | None = None
    job_uid: UUID | None = None
    job_name: str | None = None
    kind: str | None = None
    group: str | None = None
    signature: str | None = None
    owner: str | None = None

    def __post_init__(self) -> None:
        for field in ("job_name", "kind", "group", "signature", "owner"):
            if getattr(self, field) is not None:
                check_text(getattr(self, field), field)

    @classmethod
    def one(cls, letter_id: int) -> "LetterFilter":
        return cls(ids=frozenset([letter_id]))

    @property
    def is_everything(self) -> bool:
        return self == EVERY_LETTER


EVERY_LETTER = LetterFilter()


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Letters of one signature: how many, since when, and of which jobs and kinds."""

    signature: str
    count: int
    open: int
    jobs: int
    kinds: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    # The id of one of them, as an example.
    newest_id: int


def letter_id(uid: UUID) -> int:
    """The id of a letter as it is stored, from the one that people see."""
    try:
        return run_id(uid)
    except NotFound:
        raise NotFound(f"no dead letter {uid}") from None
