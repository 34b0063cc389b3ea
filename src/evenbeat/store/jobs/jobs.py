"""Reads jobs and their definitions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from evenbeat.core.errors import Conflict, EvenbeatError, NotFound
from evenbeat.core.jobs.model import Definition, ErrorClass, Job, Pulse
from evenbeat.store.database.codes import CAUSES, STATES
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs import definitions

SQL = load_statements("jobs/jobs")
LISTING = load_statements("jobs/listing")
# Some kilobytes each. A node that runs more jobs than this reads some definitions again.
MOST_REMEMBERED = 50_000
# Compared with a name that does not exist, to suggest one.
MOST_NAMES_NEAR = 2_000
# Raised by definitions that another version wrote, or that a person edited in the table.
DECODE_ERRORS = (EvenbeatError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class UnreadableDefinition:
    """A job whose stored definition this version cannot read, and why."""

    error: str
    uid: UUID | None = None


KnownDefinition = tuple[UUID, Definition] | UnreadableDefinition
VersionPair = tuple[int, int]
MISSING_JOB = UnreadableDefinition("there is a pulse, but no job")


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as an action reads it. Its definition may be unreadable."""

    id: int
    uid: UUID
    name: str | None
    version: int
    pulse: Pulse
    stored_definition: Definition | UnreadableDefinition

    @property
    def definition(self) -> Definition | None:
        stored = self.stored_definition
        return None if isinstance(stored, UnreadableDefinition) else stored


async def find_job(session: Session, uid: UUID, *, with_deleted: bool = False) -> Job:
    row = await session.fetch_row(LISTING["by_uids"], uids=[uid], with_deleted=with_deleted)
    if row is None:
        raise NotFound(f"no job {uid}")
    return job_from(decode_row(row))


async def find_job_id(session: Session, uid: UUID) -> int:
    """Its key. The job may be deleted."""
    found = await session.fetch_value(SQL["id_of"], uid=uid)
    if found is None:
        raise NotFound(f"no job {uid}")
    return found


async def find_job_by_name(session: Session, name: str) -> Job | None:
    uid = await session.fetch_value(SQL["uid_of_name"], name=name)
    return None if uid is None else await find_job(session, uid)


async def find_similar_names(session: Session, name: str) -> list[str]:
    """Names of about the same length, one of which the caller may have meant."""
    rows = await session.fetch(
        SQL["similar_names"], length=len(name), difference=2, limit=MOST_NAMES_NEAR
    )
    return [row["name"] for row in rows]


async def find_stored_jobs(session: Session, uids: Collection[UUID]) -> list[StoredJob]:
    """These jobs in the order of their ids, without those that are deleted."""
    rows = await session.fetch(LISTING["by_uids"], uids=list(uids), with_deleted=False)
    return [stored_job_from(decode_row(row)) for row in rows]


class DefinitionCache:
    """Uids and definitions of jobs, read again only if a version has changed.

    A job has two versions: that of its definition, and that of its plan, which changes when the
    job is placed elsewhere.
    """

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._known: dict[int, tuple[VersionPair, KnownDefinition]] = {}

    async def load_definitions(
        self, session: Session, versions: Mapping[int, VersionPair]
    ) -> dict[int, KnownDefinition]:
        """The definitions of these jobs, by id. An unreadable one does not hide the others."""
        known = self._known
        unknown = [
            each
            for each, version in versions.items()
            if each not in known or known[each][0] != version
        ]
        if unknown:
            rows = await session.fetch(SQL["definitions"], ids=unknown)
            if len(self._known) + len(unknown) > self._most:
                self._known = {each: self._known[each] for each in versions if each in self._known}
            found = {row["id"]: (row_versions(row), definition_from(row)) for row in rows}
            lost = {each: (versions[each], MISSING_JOB) for each in unknown if each not in found}
            self._known |= found | lost
            known = self._known
        return {each: known[each][1] for each in versions}


def row_versions(row: asyncpg.Record) -> VersionPair:
    return row["version"], row["plan_version"]


def definition_from(
    row: Mapping[str, Any] | asyncpg.Record,
) -> tuple[UUID, Definition] | UnreadableDefinition:
    try:
        return row["uid"], definitions.definition_from_row(row)
    except DECODE_ERRORS as error:
        why = f"the definition cannot be read: {type(error).__name__}: {error}"
        return UnreadableDefinition(why, row["uid"])


def job_from(row: Mapping[str, Any]) -> Job:
    known = definition_from(row)
    if isinstance(known, UnreadableDefinition):
        raise Conflict(f"job {row['uid']}: {known.error}; edit or delete it")
    return Job(
        id=row["id"],
        uid=row["uid"],
        definition=known[1],
        pulse=pulse_from(row),
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def decode_row(row: asyncpg.Record) -> dict[str, Any]:
    """The row with its JSON decoded. The uid becomes a UUID, whatever codec the connection has."""
    return {**row, **orjson.loads(row["written"]), "uid": UUID(str(row["uid"]))}


def stored_job_from(row: Mapping[str, Any]) -> StoredJob:
    known = definition_from(row)
    return StoredJob(
        id=row["id"],
        uid=row["uid"],
        name=row["name"],
        version=row["version"],
        pulse=pulse_from(row),
        stored_definition=known if isinstance(known, UnreadableDefinition) else known[1],
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
        resting=STATES[row["resting"]],
        wanted=STATES.get(row["wanted"]),
        cause=CAUSES.get(row["cause"]),
        beat_at=row["beat_at"],
        manual_attempt=row["manual_attempt"],
        runs_so_far=row["beat_count"],
        last_started_at=row["last_started_at"],
        last_finished_at=row["last_finished_at"],
        last_error=row["last_error"],
        last_error_class=row["last_error_class"] and ErrorClass(row["last_error_class"]),
        node=row["node"],
    )
