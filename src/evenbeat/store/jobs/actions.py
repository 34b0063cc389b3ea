"""Writes the actions of people on jobs: locks the jobs, then stores what the action changed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from evenbeat.core.errors import Conflict
from evenbeat.core.jobs.actions import JobChange
from evenbeat.core.jobs.catchup import MissedBeats
from evenbeat.core.jobs.lifecycle import Action, states_allowing
from evenbeat.core.jobs.model import Definition, State
from evenbeat.core.ops.audit import Actor
from evenbeat.store.database.codes import CODE_OF_STATE
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs import definitions, sql_function_checks
from evenbeat.store.jobs.jobs import DECODE_ERRORS, StoredJob, UnreadableDefinition

SQL = load_statements("jobs/actions")


@dataclass(frozen=True, slots=True)
class JobVersion:
    """A definition that a job has or had; `replaced_at` is None for the one in force."""

    number: int
    definition: Definition | UnreadableDefinition
    replaced_at: datetime | None
    replaced_by: str | None


async def lock_jobs(session: Session, uids: Collection[UUID]) -> None:
    """Until the end of the transaction, no other transaction changes these jobs."""
    await session.fetch(SQL["lock"], uids=list(uids))


async def write_changes(
    session: Session, action: Action, changes: Sequence[tuple[StoredJob, JobChange]]
) -> None:
    """Write what the action changed of these locked jobs."""
    try:
        moved = await session.execute(SQL["write_changes"], **change_columns(action, changes))
    except asyncpg.UniqueViolationError:
        raise Conflict(f"cannot {action}: another job that lives holds its dedupe key") from None
    check_change_count(action, moved, len(changes))
    shown = [job.id for job, _ in changes if is_shown_by_sql(job)]
    if shown:
        await session.fetch(SQL["show_sql_jobs"], job_ids=shown)


def is_shown_by_sql(job: StoredJob) -> bool:
    """Whether the table `sql_job` may have a row for it."""
    return job.definition is None or job.definition.kind == sql_function_checks.KIND


def change_columns(
    action: Action, changes: Sequence[tuple[StoredJob, JobChange]]
) -> dict[str, list[Any]]:
    """The columns that the statement unnests."""
    after = [change.pulse for _, change in changes]
    return {
        "job_ids": [job.id for job, _ in changes],
        "to_states": [CODE_OF_STATE[pulse.resting or pulse.state] for pulse in after],
        "wanted": [pulse.wanted and CODE_OF_STATE[pulse.wanted] for pulse in after],
        "next_beats": [pulse.next_beat_at for pulse in after],
        "retries": [pulse.retry_at for pulse in after],
        "manual": [pulse.manual_at for pulse in after],
        "beats": [pulse.beat_at for pulse in after],
        "attempts": [pulse.attempt for pulse in after],
        "manual_attempts": [pulse.manual_attempt for pulse in after],
        "parked": [pulse.state is State.BLOCKED for pulse in after],
        "replanned": [change.is_replanned for _, change in changes],
        "allowed": [CODE_OF_STATE[state] for state in states_allowing(action)],
    }


async def delete_jobs(session: Session, job_ids: Sequence[int]) -> None:
    deleted = await session.execute(SQL["delete"], job_ids=list(job_ids))
    check_change_count(Action.DELETE, deleted, len(job_ids))


async def write_definition(
    session: Session, job: StoredJob, definition: Definition, *, group_id: int | None, by: Actor
) -> None:
    """Keep the old definition as a version, and write the new one."""
    try:
        edited = await session.execute(
            SQL["edit"],
            job_id=job.id,
            version=job.version,
            actor=by.name,
            group_id=group_id,
            **definitions.definition_columns(definition),
        )
    except asyncpg.UniqueViolationError:
        raise Conflict(f"there is a job named {definition.name!r} already") from None
    check_change_count(Action.EDIT, edited, 1)


async def write_missed_beats(session: Session, missed: Sequence[tuple[int, MissedBeats]]) -> None:
    """Write one row for each of these jobs, which are locked: its beats that will not be run."""
    if not missed:
        return
    written = await session.execute(
        SQL["write_missed_beats"],
        job_ids=[job_id for job_id, _ in missed],
        first=[beats.first_at for _, beats in missed],
        until=[beats.until_at for _, beats in missed],
        counts=[beats.count for _, beats in missed],
        reasons=[beats.reason for _, beats in missed],
    )
    check_change_count(Action.EDIT, written, len(missed))


async def list_versions(session: Session, job_id: int) -> list[JobVersion]:
    """Every definition of a job, the one in force first."""
    rows = await session.fetch(SQL["versions"], job_id=job_id)
    return [version_from(row) for row in rows]


def check_change_count(action: Action, written: int, expected: int) -> None:
    """Raise if a job was not written, so that the transaction is rolled back. The jobs are locked:
    this cannot happen."""
    if written != expected:
        raise Conflict(f"{action}: {expected - written} jobs have moved meanwhile; try again")


def version_from(row: asyncpg.Record) -> JobVersion:
    try:
        known = definitions.definition_from_row(row["definition"])
    except DECODE_ERRORS as error:
        known = UnreadableDefinition(
            f"the definition cannot be read: {type(error).__name__}: {error}"
        )
    return JobVersion(row["version"], known, row["replaced_at"], row["replaced_by"])
