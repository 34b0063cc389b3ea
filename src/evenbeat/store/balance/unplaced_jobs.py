"""Jobs that wait to be placed, and how the map has changed since a process last read it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from evenbeat.core.balance.footprint import Footprint
from evenbeat.store.balance.load_map import BalancedJob, decode_optional_timetable, footprint_from
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs.jobs import DECODE_ERRORS

SQL = load_statements("balance/unplaced_jobs")
# Applying one change takes a third of a millisecond, and reading the whole map a fifth of a second:
# after a rebalance of thousands of jobs the map is read again.
MOST_CHANGES = 500


@dataclass(frozen=True, slots=True)
class LoadChange:
    """A footprint that was added to the map, or removed."""

    seq: int
    is_added: bool
    footprint: Footprint


# The changes since a process last read the map, in order. None: too many, or no longer kept.
LoadChanges = Sequence[LoadChange] | None


@dataclass(frozen=True, slots=True)
class UnplacedJobs:
    """Jobs that wait to be placed, and the changes of the map, from one snapshot."""

    jobs: Sequence[BalancedJob]
    changes: LoadChanges
    at: datetime


async def mark_unplaced(session: Session, job_ids: Collection[int], *, anew: bool) -> None:
    """Let these jobs wait to be placed; `anew`: at any phase, as if they had just been added."""
    if job_ids:
        await session.execute(SQL["mark"], job_ids=sorted(job_ids), anew=anew)


async def mark_ended(session: Session, job_ids: Collection[int]) -> None:
    """Have the map checked for these jobs, which seem to have no beat left."""
    await session.execute(SQL["mark_ended"], job_ids=sorted(job_ids))


async def mark_mismatches(session: Session, *, after: int, limit: int) -> tuple[int | None, int]:
    """Mark what the map counts wrongly among the next jobs.

    Returns the last id that was checked, None after the last job, and how many were marked.
    """
    row = await session.fetch_row(SQL["mark_mismatches"], after=after, limit=limit)
    assert row is not None  # noqa: S101 - aggregates always return a row
    return row["until"], row["count"]


async def is_any_unplaced(session: Session) -> bool:
    return await session.fetch_value(SQL["is_any_unplaced"])


async def find_unplaced_jobs(
    session: Session, seen: int, *, after: int, limit: int
) -> UnplacedJobs | None:
    """The next jobs that wait; None: there are none."""
    given = {"seen": seen, "most": MOST_CHANGES}
    rows = await session.fetch(SQL["unplaced"], after=after, limit=limit, **given)
    return unplaced_jobs_from(rows, seen)


async def find_unplaced_among(
    session: Session, seen: int, uids: Collection[UUID]
) -> UnplacedJobs | None:
    """Those of these jobs that wait; None: there are none."""
    given = {"seen": seen, "most": MOST_CHANGES}
    rows = await session.fetch(SQL["unplaced_among"], uids=list(uids), **given)
    return unplaced_jobs_from(rows, seen)


async def find_balanced_jobs(session: Session, job_ids: Collection[int]) -> list[BalancedJob]:
    """These jobs, whether they wait or not."""
    rows = await session.fetch(SQL["by_ids"], job_ids=sorted(job_ids))
    return list(map(balanced_job_from, rows))


async def read_changes(session: Session, seen: int) -> LoadChanges:
    """How the map has changed since the change `seen`."""
    row = await session.fetch_row(SQL["changes"], seen=seen, most=MOST_CHANGES)
    assert row is not None  # noqa: S101 - aggregates always return a row
    return changes_from(row, seen)


def unplaced_jobs_from(rows: Sequence[asyncpg.Record], seen: int) -> UnplacedJobs | None:
    if not rows:
        return None
    first = rows[0]
    return UnplacedJobs(list(map(balanced_job_from, rows)), changes_from(first, seen), first["at"])


def changes_from(row: asyncpg.Record, seen: int) -> LoadChanges:
    """None after too many changes, and in a database that was restored to an earlier state: the
    last change that was seen must still be there."""
    oldest, newest = row["oldest"] or 0, row["newest"] or 0
    if newest == seen:
        return []
    if newest < seen or oldest > seen or not seen or row["changes"] is None:
        return None
    return [
        LoadChange(
            seq, jobs > 0, Footprint(interval_s, phase_s, cost_s, decode_optional_timetable(text))
        )
        for seq, jobs, interval_s, phase_s, cost_s, text in row["changes"]
    ]


def balanced_job_from(row: asyncpg.Record) -> BalancedJob:
    try:
        timetable = decode_optional_timetable(row["timetable"])
    except DECODE_ERRORS:
        # The engine stops such a job when it is due. Until then it stays marked.
        timetable = None
    is_counted = row["interval_s"] is not None
    marked_count = row["marked_count"]
    return BalancedJob(
        job_id=row["job_id"],
        uid=row["uid"],
        timetable=timetable,
        should_count=row["is_counted"] and timetable is not None,
        is_undecided=row["is_undecided"] or (row["is_counted"] and timetable is None),
        counted=footprint_from(row, "counted_timetable") if is_counted else None,
        next_beat_at=row["next_beat_at"],
        beat_at=row["beat_at"],
        is_fresh=marked_count >= 0 and (row["beat_count"] or 0) <= marked_count,
        is_new=(row["version"], row["plan_version"], row["run_number"]) == (1, 1, 0),
        is_beating=bool(row["is_beating"]),
        runs_so_far=row["beat_count"] or 0,
        cost=row["cost"],
        version=row["version"],
        plan_version=row["plan_version"],
        state=row["state"],
        wanted=row["wanted"],
        token=row["token"],
    )
