"""Jobs: written by people, read by everyone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from evenbeat.core.errors import Conflict, EvenbeatError, NotFound
from evenbeat.core.model import Definition, Job, Pulse, State
from evenbeat.store import definitions
from evenbeat.store.codes import CODE_OF_STATE, STATES
from evenbeat.store.database import Session
from evenbeat.store.statements import load

SQL = load("jobs")
# What reading a definition raises that this version did not write, or that somebody edited.
NONSENSE = (EvenbeatError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A job whose stored definition makes no sense to this version, and why."""

    error: str
    uid: UUID | None = None


async def insert(
    session: Session, definition: Definition, *, uid: UUID, state: State, first_beat: datetime
) -> None:
    try:
        born = await session.fetch_value(
            SQL["insert"],
            uid=uid,
            state=CODE_OF_STATE[state],
            next_beat_at=first_beat,
            **definitions.columns(definition),
        )
    except asyncpg.UniqueViolationError:
        raise Conflict(f"there is a job named {definition.name!r} already") from None
    if born is None:
        raise NotFound(f"no kind {definition.kind!r}")


async def by_uid(session: Session, uid: UUID) -> Job:
    row = await session.fetch_row(SQL["by_uid"], uid=uid)
    if row is None:
        raise NotFound(f"no job {uid}")
    return job_from(row)


async def definitions_of(
    session: Session, ids: Sequence[int]
) -> dict[int, tuple[UUID, Definition] | Unreadable]:
    """Uid and definition of each of these jobs; one that cannot be read must not hide the rest."""
    rows = await session.fetch(SQL["definitions"], ids=list(ids))
    return {row["id"]: definition_from(row) for row in rows}


def definition_from(row: asyncpg.Record) -> tuple[UUID, Definition] | Unreadable:
    try:
        return row["uid"], definitions.from_row(row)
    except NONSENSE as error:
        why = f"the definition cannot be read: {type(error).__name__}: {error}"
        return Unreadable(why, row["uid"])


def job_from(row: asyncpg.Record) -> Job:
    return Job(
        id=row["id"],
        uid=row["uid"],
        definition=definitions.from_row(row),
        pulse=pulse_from(row),
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def pulse_from(row: asyncpg.Record) -> Pulse:
    return Pulse(
        state=STATES[row["state"]],
        next_beat_at=row["next_beat_at"],
        retry_at=row["retry_at"],
        manual_at=row["manual_at"],
        due_at=row["due_at"],
        state_at=row["state_at"],
        completed_count=row["completed_count"],
        failed_count=row["failed_count"],
        failure_streak=row["failure_streak"],
        lost_streak=row["lost_streak"],
        attempt=row["attempt"],
        run_number=row["run_number"],
    )
