"""Jobs: written by people, read by everyone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from evenbeat.core.errors import EvenbeatError, NotFound
from evenbeat.core.model import Definition, Job, Pulse, State
from evenbeat.store import definitions
from evenbeat.store.codes import CODE_OF_STATE, STATES
from evenbeat.store.database import Session
from evenbeat.store.statements import load

SQL = load("jobs")
# Some kilobytes each; a node that runs more jobs than this reads them anew now and then.
MOST_REMEMBERED = 50_000
# What reading a definition raises that this version did not write, or that somebody edited.
NONSENSE = (EvenbeatError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A job whose stored definition makes no sense to this version, and why."""

    error: str
    uid: UUID | None = None


Known = tuple[UUID, Definition] | Unreadable
NOWHERE = Unreadable("there is a pulse, but no job")


async def by_uid(session: Session, uid: UUID) -> Job:
    row = await session.fetch_row(SQL["by_uid"], uid=uid)
    if row is None:
        raise NotFound(f"no job {uid}")
    return job_from({**row, **orjson.loads(row["written"]), "uid": uid})


async def by_name(session: Session, name: str) -> Job | None:
    uid = await session.fetch_value(SQL["uid_of_name"], name=name)
    return None if uid is None else await by_uid(session, uid)


async def lock(session: Session, job_id: int) -> int | None:
    """Hold the job still until the end of the transaction; how many of its beats were run."""
    return await session.fetch_value(SQL["lock"], job_id=job_id)


async def change(
    session: Session,
    job_id: int,
    definition: Definition,
    *,
    group_id: int | None,
    waiting: State,
    cursor: datetime | None,
    is_replanned: bool,
) -> bool:
    """Give a job that is held another definition. False: its lane is not open."""
    written = definitions.columns(definition)
    written.pop("name")
    changed = await session.fetch_value(
        SQL["change"],
        job_id=job_id,
        group_id=group_id,
        waiting=CODE_OF_STATE[waiting],
        next_beat_at=cursor,
        is_replanned=is_replanned,
        **written,
    )
    return changed is not None


async def cancel(session: Session, job_id: int) -> bool:
    """False: its state does not allow it."""
    return await session.fetch_value(SQL["cancel"], job_id=job_id) is not None


class Definitions:
    """Uids and definitions of jobs, read once and good while their version is the same."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._known: dict[int, tuple[int, Known]] = {}

    async def of(self, session: Session, versions: Mapping[int, int]) -> dict[int, Known]:
        """One that cannot be read must not hide the rest."""
        unknown = [each for each, version in versions.items() if self._version(each) != version]
        if unknown:
            rows = await session.fetch(SQL["definitions"], ids=unknown)
            if len(self._known) + len(unknown) > self._most:
                self._known = {each: self._known[each] for each in versions if each in self._known}
            found = {row["id"]: (row["version"], definition_from(row)) for row in rows}
            lost = {each: (versions[each], NOWHERE) for each in unknown if each not in found}
            self._known |= found | lost
        return {each: self._known[each][1] for each in versions}

    def _version(self, job_id: int) -> int | None:
        known = self._known.get(job_id)
        return known and known[0]


def definition_from(row: Any) -> tuple[UUID, Definition] | Unreadable:
    try:
        return row["uid"], definitions.from_row(row)
    except NONSENSE as error:
        why = f"the definition cannot be read: {type(error).__name__}: {error}"
        return Unreadable(why, row["uid"])


def job_from(row: Mapping[str, Any]) -> Job:
    return Job(
        id=row["id"],
        uid=row["uid"],
        definition=definitions.from_row(row),
        pulse=pulse_from(row),
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def pulse_from(row: Mapping[str, Any]) -> Pulse:
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
