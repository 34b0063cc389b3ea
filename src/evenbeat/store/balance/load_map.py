"""Placements: what the map of the coming week holds of each job, and the jobs it has wrong."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from evenbeat.core.balance.footprint import Footprint
from evenbeat.core.balance.model import RebalanceCandidate
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs.definitions import decode_timetable, json_text
from evenbeat.store.jobs.jobs import DECODE_ERRORS

SQL = load_statements("balance/load_map")
# Changes of the map that are kept: who has seen less reads the map anew.
KEPT_CHANGES = 10_000
# One by one they take a third of a millisecond each, and the whole map a fifth of a second: after
# a rebalance of thousands it is read anew.
MOST_CHANGES = 500
PAGE = 5_000


@dataclass(frozen=True, slots=True)
class JobToPlace:
    """A job as a placement finds it.

    `counted` is what the map holds of it, `should_count` whether it should hold anything: that may
    be undecided until a run has ended, or the job can be read again. It is `fresh` while it has not
    beaten since it was added, edited or resumed.
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
    # As it was read, to be compared when it is written.
    version: int | None
    plan_version: int | None
    state: bytes | None
    wanted: bytes | None
    token: int | None


@dataclass(frozen=True, slots=True)
class PlacementUpdate:
    """What is to be written of a job: what the map holds of it then, None for nothing.

    With a `timetable` its phase changes; `next_beat_at` is its cursor then, None: as it is.
    """

    job: JobToPlace
    footprint: Footprint | None
    timetable: Timetable | None = None
    next_beat_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WrittenPlacements:
    """Which jobs were written, and the change of the map by that; None: nothing in it changed.

    `is_agreed`: the map was what the writer had seen, and nobody else was at it.
    """

    job_ids: frozenset[int]
    seq: int | None
    is_agreed: bool


@dataclass(frozen=True, slots=True)
class LoadChange:
    """A footprint that came into the map, or went."""

    seq: int
    is_added: bool
    footprint: Footprint


# What has changed since somebody looked, in its order; None: nobody can tell any more.
LoadChanges = Sequence[LoadChange] | None


@dataclass(frozen=True, slots=True)
class UnplacedJobs:
    """Jobs that are to be placed, and how the map has changed up to the same moment."""

    jobs: Sequence[JobToPlace]
    changes: LoadChanges
    at: datetime


@dataclass(frozen=True, slots=True)
class IntervalCounts:
    """Intervals that may be placed anywhere, as columns."""

    interval_s: list[int]
    phase_s: list[int]
    cost_s: list[int]
    count: list[int]


@dataclass(frozen=True, slots=True)
class LoadMap:
    """The whole map at one moment: plain intervals, all others by how many are alike, and the
    newest change that is in it."""

    seq: int
    plain: IntervalCounts
    other_footprints: list[tuple[Footprint, int]]


@dataclass(frozen=True, slots=True)
class MappedJob:
    """A job of the map, as somebody sees it who would move it."""

    uid: UUID
    name: str | None
    footprint: Footprint
    candidate: RebalanceCandidate


async def lock_load_map(session: Session) -> None:
    """Until the end of the transaction, nobody else changes the map."""
    if not await session.execute(SQL["lock"]):
        # Somebody emptied its table: with nothing to hold, two would write at once.
        await session.execute(SQL["make_lockable"])
        await session.execute(SQL["lock"])


async def read_load_map(session: Session) -> LoadMap:
    row = await session.fetch_row(SQL["read_load_map"])
    assert row is not None  # noqa: S101 - aggregates always come
    plain = IntervalCounts(row["intervals"], row["phases"], row["costs"], row["counts"])
    names = ("apart_intervals", "apart_phases", "apart_costs", "timetables", "apart_counts")
    columns = [row[name] for name in names]
    apart = [
        (Footprint(interval_s, phase_s, cost_s, decode_optional_timetable(text)), count)
        for interval_s, phase_s, cost_s, text, count in zip(*columns, strict=True)
    ]
    return LoadMap(row["seq"], plain, apart)


async def read_changes(session: Session, seen: int) -> LoadChanges:
    """What has changed since."""
    row = await session.fetch_row(SQL["changes"], seen=seen, most=MOST_CHANGES)
    assert row is not None  # noqa: S101 - aggregates always come
    return changes_from(row, seen)


async def mark_unplaced(session: Session, job_ids: Collection[int], *, anew: bool) -> None:
    """These jobs are to be placed; `anew`: anywhere, as if they had just been added."""
    if job_ids:
        await session.execute(SQL["mark"], job_ids=sorted(job_ids), anew=anew)


async def mark_ended(session: Session, job_ids: Collection[int]) -> None:
    """These jobs beat no more, as far as is known."""
    await session.execute(SQL["mark_ended"], job_ids=sorted(job_ids))


async def is_any_unplaced(session: Session) -> bool:
    return await session.fetch_value(SQL["is_any_unplaced"])


async def find_unplaced_jobs(
    session: Session, seen: int, *, after: int, limit: int
) -> UnplacedJobs | None:
    """Jobs that are to be placed; None: there are none."""
    given = {"seen": seen, "most": MOST_CHANGES}
    rows = await session.fetch(SQL["unplaced"], after=after, limit=limit, **given)
    return unplaced_jobs_from(rows, seen)


async def find_unplaced_among(
    session: Session, seen: int, uids: Collection[UUID]
) -> UnplacedJobs | None:
    """Those of these jobs that are to be placed; None: none is."""
    given = {"seen": seen, "most": MOST_CHANGES}
    rows = await session.fetch(SQL["unplaced_of"], uids=list(uids), **given)
    return unplaced_jobs_from(rows, seen)


async def find_jobs_to_place(session: Session, job_ids: Collection[int]) -> list[JobToPlace]:
    rows = await session.fetch(SQL["jobs_to_place"], job_ids=sorted(job_ids))
    return list(map(job_to_place_from, rows))


async def write_placements(
    session: Session,
    placings: Sequence[PlacementUpdate],
    *,
    seen: int | None = None,
    wakes: bool = False,
) -> WrittenPlacements:
    """Write these; one that has changed since it was read is left as it is.

    Under the lock or, with what was `seen` of the map, all by itself.
    """
    row = await session.fetch_row(
        SQL["write"], **placement_columns(placings), seen=seen, wakes=wakes
    )
    assert row is not None  # noqa: S101 - a row always comes
    return WrittenPlacements(frozenset(row["job_ids"]), row["seq"], row["is_agreed"])


async def remove_from_load_map(session: Session, job_ids: Collection[int]) -> None:
    """Jobs that are gone altogether leave the map."""
    await session.execute(SQL["forget"], job_ids=sorted(job_ids))


async def list_candidates(
    session: Session, *, start_s: int, group: str | None, is_mapped: bool
) -> list[MappedJob]:
    """Every job that counts; without a map, from the jobs themselves."""
    found: list[MappedJob] = []
    after, statement = 0, SQL["candidates" if is_mapped else "candidates_without_map"]
    while rows := await session.fetch(statement, after=after, limit=PAGE, group_key=group):
        for row in rows:
            mapped = mapped_job_from(row, start_s)
            if mapped is not None:
                found.append(mapped)
        after = rows[-1]["id"]
    return found


async def mark_mismatches(session: Session, *, after: int, limit: int) -> tuple[int | None, int]:
    """Mark what the map has wrong among the next jobs: up to which, and how many were marked."""
    row = await session.fetch_row(SQL["reconcile"], after=after, limit=limit)
    assert row is not None  # noqa: S101 - aggregates always come
    return row["until"], row["count"]


async def prune_changes(session: Session) -> int:
    return await session.execute(SQL["prune"], keep=KEPT_CHANGES)


def placement_columns(placings: Sequence[PlacementUpdate]) -> dict[str, list[Any]]:
    """The columns that the statement unnests."""
    ordered = sorted(placings, key=lambda each: each.job.job_id)
    jobs, prints = [each.job for each in ordered], [each.footprint for each in ordered]
    return {
        "job_ids": [job.job_id for job in jobs],
        "versions": [job.version for job in jobs],
        "plan_versions": [job.plan_version for job in jobs],
        "states": [job.state for job in jobs],
        "wanted": [job.wanted for job in jobs],
        "tokens": [job.token for job in jobs],
        "cursors": [job.next_beat_at for job in jobs],
        "intervals": [each and each.interval_s for each in prints],
        "phases": [each and each.phase_s for each in prints],
        "costs": [each and each.cost_s for each in prints],
        "aparts": [encode_timetable(each and each.timetable) for each in prints],
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


def unplaced_jobs_from(rows: Sequence[asyncpg.Record], seen: int) -> UnplacedJobs | None:
    if not rows:
        return None
    first = rows[0]
    return UnplacedJobs(list(map(job_to_place_from, rows)), changes_from(first, seen), first["at"])


def changes_from(row: asyncpg.Record, seen: int) -> LoadChanges:
    """None where too many have come since, and in a database that was put back to an earlier state:
    the last change that was seen must still be there."""
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


def job_to_place_from(row: asyncpg.Record) -> JobToPlace:
    try:
        timetable = decode_optional_timetable(row["timetable"])
    except DECODE_ERRORS:
        # The engine stops such a job when it is due, and until then it waits to be mended.
        timetable = None
    is_counted = row["interval_s"] is not None
    marked_count = row["marked_count"]
    return JobToPlace(
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


def mapped_job_from(row: asyncpg.Record, start_s: int) -> MappedJob | None:
    """None: a job that nobody can read."""
    try:
        if "interval_s" in row:
            footprint = footprint_from(row)
        else:
            footprint = Footprint.of_timetable(
                decode_timetable(row["timetable"].encode()), row["cost"]
            )
    except DECODE_ERRORS:
        return None
    candidate = RebalanceCandidate(
        footprint.load(start_s, row["id"]),
        row["next_beat_at"],
        row["placed_at"],
        row["is_running"],
        row["is_moving"],
    )
    return MappedJob(row["uid"], row["name"], footprint, candidate)
