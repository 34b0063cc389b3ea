"""Reads statistics: the janitor counts runs into days, and pulses have counters."""

from datetime import timedelta
from typing import Any

import asyncpg

from evenbeat.core.jobs.model import RunState
from evenbeat.core.ops.statistics import (
    DayStatistics,
    JobStatistics,
    RunCounts,
    RunEnding,
    StatisticsScope,
    durations_of,
)
from evenbeat.store.database.codes import RUN_STATES
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.ops.chores import COUNT

SQL = load_statements("ops/statistics")
# A job's durations come from this many of its newest runs.
SAMPLE = 1000
MOST_COUNTED = 10_000
MILLISECOND = timedelta(milliseconds=1)


async def read_job_statistics(session: Session, job_id: int) -> JobStatistics:
    endings = await list_newest_endings(session, job_id, limit=SAMPLE)
    [row] = await session.fetch(SQL["of_job"], job_id=job_id, most=MOST_COUNTED)
    return JobStatistics(
        completed=row["completed_count"],
        failed=row["failed_count"],
        cancelled=row["cancelled_count"],
        running=int(row["is_running"]),
        durations=durations_of(endings),
        last_run_at=row["started_at"],
        next_run_at=row["due_at"],
    )


async def list_newest_endings(session: Session, job_id: int, *, limit: int) -> list[RunEnding]:
    """How the newest runs of a job ended, newest first."""
    rows = await session.fetch(SQL["newest_endings"], job_id=job_id, limit=limit)
    return [
        RunEnding(
            RunState(RUN_STATES[row["state"]]),
            None if row["duration_ms"] is None else row["duration_ms"] * MILLISECOND,
        )
        for row in rows
    ]


async def read_run_counts(session: Session, scope: StatisticsScope) -> RunCounts:
    [row] = await session.fetch(SQL["runs"], counting=COUNT, **scope_parameters(scope))
    return counts_from(row)


async def list_days(session: Session, scope: StatisticsScope, *, count: int) -> list[DayStatistics]:
    """The last days on which runs started, oldest first; days without any are left out."""
    rows = await session.fetch(SQL["days"], counting=COUNT, days=count, **scope_parameters(scope))
    return [DayStatistics(row["day"], counts_from(row), row["retried"]) for row in rows]


async def count_dead_letters(session: Session, scope: StatisticsScope) -> tuple[int, int]:
    """The number of dead letters, and of those that are not acknowledged."""
    [row] = await session.fetch(SQL["dead_letters"], **scope_parameters(scope))
    return row["total"], row["unacknowledged"]


def scope_parameters(scope: StatisticsScope) -> dict[str, Any]:
    return {"job_id": scope.job_id, "kind": scope.kind, "group": scope.group}


def counts_from(row: asyncpg.Record) -> RunCounts:
    return RunCounts(
        completed=row["completed"],
        failed=row["failed"],
        lost=row["lost"],
        cancelled=row["cancelled"],
        skipped=row["skipped"],
        time_spent=row["duration_ms"] * MILLISECOND,
    )
