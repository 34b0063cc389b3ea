"""The map of the load: what is counted of each job in the coming week, and how that changes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from evenbeat.core.balance.footprint import Footprint
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs.definitions import decode_timetable, json_text

SQL = load_statements("balance/load_map")
# A process that has seen fewer changes than these reads the whole map again.
KEPT_CHANGES = 10_000


@dataclass(frozen=True, slots=True)
class BalancedJob:
    """A job as balancing reads it.

    `counted` is what the map counts of the job now; `should_count` says whether it should count
    anything. While `is_undecided`, that depends on how a run ends, or on a definition that this
    version cannot read. The job `is_fresh` until its first beat after it was added, edited or
    resumed.
    """

    job_id: int
    uid: UUID | None
    timetable: Timetable | None
    should_count: bool
    is_undecided: bool
    counted: Footprint | None
    next_beat_at: datetime | None
    beat_at: datetime | None
    is_fresh: bool
    is_new: bool
    is_beating: bool
    runs_so_far: int
    cost: float | None
    # As they were read. The job is written only if they are still the same.
    version: int | None
    plan_version: int | None
    state: bytes | None
    wanted: bytes | None
    token: int | None


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """What the map will count of a job (None: nothing).

    With a `timetable` the job gets another phase; `next_beat_at` is then its next beat (None: it
    keeps the one it has).
    """

    job: BalancedJob
    footprint: Footprint | None
    timetable: Timetable | None = None
    next_beat_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WrittenUpdates:
    """The jobs that were written, and the number of the newest change (None: nothing changed).

    `is_agreed` is False if another process has changed the map, or is about to: then nothing was
    written.
    """

    job_ids: frozenset[int]
    seq: int | None
    is_agreed: bool


@dataclass(frozen=True, slots=True)
class IntervalCounts:
    """Jobs that may have any phase of their interval, counted by interval, phase and cost."""

    interval_s: list[int]
    phase_s: list[int]
    cost_s: list[int]
    count: list[int]


@dataclass(frozen=True, slots=True)
class LoadMap:
    """The whole map in one snapshot: plain intervals, all other footprints with how many jobs have
    them, and the number of the newest change."""

    seq: int
    intervals: IntervalCounts
    other_footprints: list[tuple[Footprint, int]]


async def lock_load_map(session: Session) -> None:
    """No other process changes the map until the end of this transaction."""
    if not await session.execute(SQL["lock"]):
        # The table was emptied. Without a row to lock, two processes would write at once.
        await session.execute(SQL["make_lockable"])
        await session.execute(SQL["lock"])


async def read_load_map(session: Session) -> LoadMap:
    row = await session.fetch_row(SQL["read_load_map"])
    assert row is not None  # noqa: S101 - aggregates always return a row
    intervals = IntervalCounts(row["intervals"], row["phases"], row["costs"], row["counts"])
    names = ("special_intervals", "special_phases", "special_costs", "timetables", "special_counts")
    columns = [row[name] for name in names]
    other = [
        (Footprint(interval_s, phase_s, cost_s, decode_optional_timetable(text)), count)
        for interval_s, phase_s, cost_s, text, count in zip(*columns, strict=True)
    ]
    return LoadMap(row["seq"], intervals, other)


async def write_map_updates(
    session: Session,
    updates: Sequence[MapUpdate],
    *,
    seen: int | None = None,
    wakes: bool = False,
) -> WrittenUpdates:
    """Write these updates; a job that has changed since it was read is left as it is.

    The caller holds the lock, or passes the newest change it has `seen`.
    """
    row = await session.fetch_row(SQL["write"], **update_columns(updates), seen=seen, wakes=wakes)
    assert row is not None  # noqa: S101 - the statement always returns a row
    return WrittenUpdates(frozenset(row["job_ids"]), row["seq"], row["is_agreed"])


async def remove_from_load_map(session: Session, job_ids: Collection[int]) -> None:
    """Remove jobs whose rows have been deleted."""
    await session.execute(SQL["remove"], job_ids=sorted(job_ids))


async def prune_changes(session: Session) -> int:
    return await session.execute(SQL["prune_changes"], keep=KEPT_CHANGES)


def update_columns(updates: Sequence[MapUpdate]) -> dict[str, list[Any]]:
    """The updates as the columns that the statement unnests."""
    ordered = sorted(updates, key=lambda each: each.job.job_id)
    jobs, footprints = [each.job for each in ordered], [each.footprint for each in ordered]
    return {
        "job_ids": [job.job_id for job in jobs],
        "versions": [job.version for job in jobs],
        "plan_versions": [job.plan_version for job in jobs],
        "states": [job.state for job in jobs],
        "wanted": [job.wanted for job in jobs],
        "tokens": [job.token for job in jobs],
        "cursors": [job.next_beat_at for job in jobs],
        "intervals": [each and each.interval_s for each in footprints],
        "phases": [each and each.phase_s for each in footprints],
        "costs": [each and each.cost_s for each in footprints],
        "special": [encode_timetable(each and each.timetable) for each in footprints],
        "timetables": [encode_timetable(each.timetable) for each in ordered],
        "next_beats": [each.next_beat_at for each in ordered],
    }


def encode_timetable(timetable: Timetable | None) -> str | None:
    return None if timetable is None else json_text(timetable.to_object())


def decode_optional_timetable(text: str | None) -> Timetable | None:
    return None if text is None else decode_timetable(text.encode())


def footprint_from(row: asyncpg.Record, timetable: str = "timetable") -> Footprint:
    return Footprint(
        row["interval_s"], row["phase_s"], row["cost_s"], decode_optional_timetable(row[timetable])
    )
