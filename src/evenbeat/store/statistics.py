"""Statistics: counted by the engine as it goes, read here."""

from datetime import timedelta

from evenbeat.core.model import RunState
from evenbeat.core.statistics import Ending, RunCounts, Statistics, durations_of
from evenbeat.store.chores import COUNT
from evenbeat.store.codes import RUN_STATES
from evenbeat.store.database import Session
from evenbeat.store.statements import load

SQL = load("statistics")
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


async def runs(session: Session) -> RunCounts:
    [row] = await session.fetch(SQL["runs"], counting=COUNT)
    return RunCounts(
        completed=row["completed"],
        failed=row["failed"],
        lost=row["lost"],
        cancelled=row["cancelled"],
        skipped=row["skipped"],
        time_spent=row["duration_ms"] * MILLISECOND,
    )


async def dead_letters(session: Session) -> tuple[int, int]:
    """How many there are, and how many nobody has acknowledged."""
    [row] = await session.fetch(SQL["dead_letters"])
    return row["total"], row["unacknowledged"]
