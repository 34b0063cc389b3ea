"""Runs: the history of a job, newest first."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.jobs.model import ErrorClass, Run, RunState
from evenbeat.core.runs.run_export import ExportedRun, RunFilter
from evenbeat.store.database.codes import CAUSES, CODE_OF_RUN_STATE, RUN_STATES
from evenbeat.store.database.connection_errors import translate_driver_errors
from evenbeat.store.database.pool import Session, open_read_snapshot, order_values
from evenbeat.store.database.statements import load_statements

SQL = load_statements("runs/runs")
# Rows that are read at a time: a few megabytes, if each has a stack trace.
EXPORT_BATCH = 500
NO_JOB_UID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in a list of many jobs' runs, with the name of its job."""

    run: Run
    job_name: str | None
    kind: str


@dataclass(frozen=True, slots=True)
class StoredLogLine:
    """A log line of a run, as it is stored; a later line has a larger id."""

    id: int
    at: datetime
    level: str
    message: str


async def list_runs(
    session: Session,
    job_id: int,
    job_uid: UUID,
    *,
    limit: int,
    offset: int,
    with_skipped: bool = True,
    with_returned: bool = True,
) -> list[Run]:
    rows = await session.fetch(
        SQL["page"],
        job_id=job_id,
        limit=limit,
        offset=offset,
        with_skipped=with_skipped,
        with_returned=with_returned,
    )
    return [run_from(row, job_uid) for row in rows]


async def count_runs(
    session: Session, job_id: int, *, with_skipped: bool = True, with_returned: bool = True
) -> int:
    return await session.fetch_value(
        SQL["count"], job_id=job_id, with_skipped=with_skipped, with_returned=with_returned
    )


async def find_run(session: Session, run_id: int) -> Run:
    row = await session.fetch_row(SQL["by_id"], run_id=run_id)
    if row is None:
        raise NotFound(f"no run {run_uid(run_id)}")
    return run_from(row, row["job_uid"])


async def export_runs(
    url: str, clock: str, chosen: RunFilter, at_once: int = EXPORT_BATCH
) -> AsyncIterator[ExportedRun]:
    """The runs that match, the oldest first, from one snapshot, read a few at a time."""
    given: dict[str, object] = {
        "job_uid": chosen.job_uid,
        "since": chosen.since,
        "until": chosen.until,
        "states": chosen.states and [CODE_OF_RUN_STATE[state] for state in sorted(chosen.states)],
    }
    statement = SQL["export"]
    async with open_read_snapshot(url) as connection:
        with translate_driver_errors():
            values = order_values(statement, given)
            cursor = await connection.cursor(statement.text(clock), *values)
            while rows := await cursor.fetch(at_once):
                for row in rows:
                    uid = row["job_uid"]
                    run = run_from(row, uid or NO_JOB_UID)
                    yield ExportedRun(run, uid, row["job_name"], row["kind"])


async def list_newest_runs(
    session: Session,
    *,
    job_id: int | None,
    states: Collection[RunState] | None,
    older_than: int | None,
    limit: int,
) -> list[ListedRun]:
    rows = await session.fetch(
        SQL["newest"],
        job_id=job_id,
        states=None if states is None else [CODE_OF_RUN_STATE[state] for state in states],
        older_than=older_than,
        limit=limit,
    )
    return [ListedRun(run_from(row, row["job_uid"]), row["job_name"], row["kind"]) for row in rows]


async def list_log_lines(
    session: Session, run_id: int, *, after: int, limit: int
) -> list[StoredLogLine]:
    rows = await session.fetch(SQL["lines"], run_id=run_id, after=after, limit=limit)
    return [StoredLogLine(row["id"], row["at"], row["level"], row["message"]) for row in rows]


def run_from(row: asyncpg.Record, job_uid: UUID) -> Run:
    milliseconds, error_class = row["duration_ms"], row["error_class"]
    return Run(
        id=row["id"],
        job_uid=job_uid,
        number=row["number"],
        state=RUN_STATES[row["state"]],
        cause=CAUSES[row["cause"]],
        beat_at=row["beat_at"],
        attempt=row["attempt"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        duration=None if milliseconds is None else timedelta(milliseconds=milliseconds),
        node=row["node"],
        error_class=None if error_class is None else ErrorClass(error_class),
        error=row["error"],
        stack_trace=row["stack_trace"],
        result=row["result"],
        items_crawled=row["items_crawled"] or 0,
        items_indexed=row["items_indexed"] or 0,
        reason=row["reason"],
        skipped_count=row["skipped_count"],
        skipped_until=row["skipped_until"],
    )
