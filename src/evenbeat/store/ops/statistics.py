"""Statistics: counted by the engine as it goes, read here."""

from datetime import timedelta
from typing import Any

import asyncpg

from evenbeat.core.jobs.model import RunState
from evenbeat.core.ops.statistics import Day, Ending, RunCounts, Scope, Statistics, durations_of
from evenbeat.store.database.codes import RUN_STATES
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load
from evenbeat.store.ops.chores import COUNT

SQL = load("ops/statistics")
# Of so many of its newest runs a job's durations are told.
SAMPLE = 1000
MOST_COUNTED = 10_000
MILLISECOND = timedelta(milliseconds=1)


async def of_job(session: Session, job_id: int) -> Statistics:
    endings = await newest_endings(session, job_id, limit=SAMPLE)
    [row] = await session.fetch(SQL["of_job"], job_id=job_id, most=MOST_COUNTED)
    return Statistics(
        completed=row["completed_count"],
        failed=row["failed_count"],
        cancelled=row["cancelled_count"],
        running=int(row["is_running"]),
        durations=durations_of(endings),
        last_run_at=row["started_at"],
        next_run_at=row["due_at"],
    )


async def newest_endings(session: Session, job_id: int, *, limit: int) -> list[Ending]:
    """How the newest runs of a job ended, newest first."""
    rows = await session.fetch(SQL["newest_endings"], job_id=job_id, limit=limit)
    return [
        Ending(
            RunState(RUN_STATES[row["state"]]),
            None if row["duration_ms"] is None else row["duration_ms"] * MILLISECOND,
        )
        for row in rows
    ]


async def runs(session: Session, scope: Scope) -> RunCounts:
    [row] = await session.fetch(SQL["runs"], counting=COUNT, **conditions(scope))
    return counts_from(row)


async def days(session: Session, scope: Scope, *, count: int) -> list[Day]:
    """The last days on which runs started, oldest first; days without any are left out."""
    rows = await session.fetch(SQL["days"], counting=COUNT, days=count, **conditions(scope))
    return [Day(row["day"], counts_from(row), row["retried"]) for row in rows]


async def dead_letters(session: Session, scope: Scope) -> tuple[int, int]:
    """How many there are, and how many nobody has acknowledged."""
    [row] = await session.fetch(SQL["dead_letters"], **conditions(scope))
    return row["total"], row["unacknowledged"]


def conditions(scope: Scope) -> dict[str, Any]:
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
