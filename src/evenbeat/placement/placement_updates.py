"""What becomes of jobs that the map has wrong: who leaves, who stays, and who is put where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from evenbeat.core.balance.bulk_placement import place_jobs
from evenbeat.core.balance.footprint import Footprint
from evenbeat.core.balance.model import JobLoad, Move, seconds_of
from evenbeat.core.balance.phase_search import place_job
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.balance.load_map import JobToPlace, PlacementUpdate

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """Where a job was put: how it beats from now on, and when first."""

    uid: UUID
    timetable: Timetable
    next_beat_at: datetime
    at: datetime
    is_new: bool
    # How many runs start in the slot of its next beat.
    load: int


def decide_updates(
    ring: LoadRing, jobs: Sequence[JobToPlace], now: datetime, *, may_place: bool
) -> list[PlacementUpdate]:
    """Decide for each, and leave the ring as it is once all of it is written.

    All that is counted of them is taken out first, so that nobody gives way to itself. Who stays is
    back before anybody chooses, or its place would seem to be empty.
    """
    for job in jobs:
        if job.counted is not None:
            ring.remove(job.counted.load(ring.start_s))
    free = [job for job in jobs if may_place and may_place_anywhere(job, now)]
    choosing = {job.job_id for job in free}
    decided = {job.job_id: keep_place(ring, job) for job in jobs if job.job_id not in choosing}
    decided |= {each.job.job_id: each for each in choose_phases(ring, free, now)}
    return [decided.get(job.job_id) or keep_place(ring, job) for job in jobs]


def may_place_anywhere(job: JobToPlace, now: datetime) -> bool:
    """Whether it may be put anywhere: it has not beaten yet, and no beat of it is owed."""
    if not job.should_count or not job.is_fresh or job.timetable is None:
        return False
    is_owed = job.next_beat_at is None or job.next_beat_at <= now
    return job.timetable.is_free and not is_owed


def keep_place(ring: LoadRing, job: JobToPlace) -> PlacementUpdate:
    """Count it where it beats, if it does."""
    if not job.should_count or job.timetable is None:
        return PlacementUpdate(job, None)
    footprint = Footprint.of_timetable(job.timetable, job.cost)
    ring.add(footprint.load(ring.start_s))
    return PlacementUpdate(job, footprint)


def undo_update(ring: LoadRing, placing: PlacementUpdate) -> None:
    """Leave the ring as it was before this one."""
    if placing.footprint is not None:
        ring.remove(placing.footprint.load(ring.start_s))
    if placing.job.counted is not None:
        ring.add(placing.job.counted.load(ring.start_s))


def choose_phases(
    ring: LoadRing, jobs: Sequence[JobToPlace], now: datetime
) -> list[PlacementUpdate]:
    if not jobs:
        return []
    loads = [unplaced_load(job, ring.start_s) for job in jobs]
    # What looks at many at once costs several times as much for one alone.
    placements = (
        [place_job(ring, loads[0], now)] if len(loads) == 1 else place_jobs(ring, loads, now)
    )
    placings: list[PlacementUpdate] = []
    for job, load, placement in zip(jobs, loads, placements, strict=True):
        placing = update_for_phase(job, placement.phase_s, now)
        if placing is None:
            ring.remove(replace(load, phase_s=placement.phase_s))
        else:
            placings.append(placing)
    return placings


def unplaced_load(job: JobToPlace, start_s: int) -> JobLoad:
    assert job.timetable is not None  # noqa: S101 - only those that can be read are free
    load = Footprint.of_timetable(job.timetable, job.cost).load(start_s, job.job_id)
    return replace(load, phase_s=None)


def update_for_phase(job: JobToPlace, phase_s: int, now: datetime) -> PlacementUpdate | None:
    """The job at this phase; None: by its bounds or its window it would not beat there at all."""
    was, cursor = job.timetable, job.next_beat_at
    if was is None or cursor is None:
        return None
    phase, is_interval = timedelta(seconds=phase_s), isinstance(was.schedule, Every)
    # Of named instants only those to come are put off: one that ran today is not run again today.
    try:
        timetable = was.at_phase(phase) if is_interval else was.at_phase_from(phase, cursor)
    except InvalidInput:
        return None
    first_at = timetable.next_after(now, job.runs_so_far)
    if first_at is None:
        return None
    return PlacementUpdate(job, Footprint.of_timetable(timetable, job.cost), timetable, first_at)


def updates_for_moves(
    jobs: Sequence[JobToPlace],
    moves: Sequence[Move],
    now: datetime,
    *,
    expected: Mapping[int, Footprint] | None = None,
) -> list[PlacementUpdate]:
    """These moves of a plan; `expected` are footprints by job, as the plan knew them."""
    found = {job.job_id: job for job in jobs}
    placings: list[PlacementUpdate] = []
    for move in moves:
        job = found.get(move.job)
        if job is None or (expected is not None and not is_unchanged(job, expected.get(move.job))):
            raise Conflict(f"job {move.job} has changed since the plan was made; make another")
        placings.append(update_for_move(job, move, now))
    return placings


def is_unchanged(job: JobToPlace, expected: Footprint | None) -> bool:
    """Whether the map still holds this of the job; what it costs may have been learned since."""
    counted = job.counted
    return (
        counted is not None
        and expected is not None
        and (counted.interval_s, counted.phase_s, counted.timetable)
        == (expected.interval_s, expected.phase_s, expected.timetable)
    )


def update_for_move(job: JobToPlace, move: Move, now: datetime) -> PlacementUpdate:
    """A move of a plan; Conflict if it does not fit the job any more."""
    was = job.timetable
    fits = (
        job.should_count
        and job.counted is not None
        and job.counted.phase_s == move.old_phase_s
        and was is not None
        and was.is_free
    )
    if not fits or was is None:
        raise Conflict(f"job {job.uid} has changed since the plan was made; make another")
    if min(move.old_next_at, move.new_next_at) <= now:
        raise Conflict("the plan is too old: its first beats have come; make another")
    timetable = apply_move(was, move, now)
    if timetable is None or not moves_one_beat(was, timetable, move, now):
        raise Conflict(f"job {job.uid} would gain or lose a beat by this; make another plan")
    return PlacementUpdate(
        job,
        Footprint.of_timetable(timetable, job.cost),
        timetable,
        cursor_after(job, timetable, move, now),
    )


def apply_move(was: Timetable, move: Move, now: datetime) -> Timetable | None:
    """A move that leads back to where the job has not left yet is no move: it calls one off.

    One that is still to come keeps its beats until then, and leads elsewhere. None: another of its
    beats is to move, and a place cannot tell of two moves.

    Plans know whole seconds, while a job that was never placed beats at any fraction of one: it
    gets back what it had.
    """
    phase, place = timedelta(seconds=move.new_phase_s), was.place
    if place is None or place.before is None or place.until is None:
        return was.at_phase_from(phase, move.old_next_at)
    if (place.before // SECOND, place.until) == (move.new_phase_s, move.new_next_at):
        return was.at_phase(place.before)
    since = place.since(was.schedule)
    if since > now and abs(since - move.old_next_at) < SECOND:
        return replace(was, place=replace(place, phase=phase, then=move.new_next_at))
    return None if min(place.until, since) > now else was.at_phase_from(phase, move.old_next_at)


def moves_one_beat(was: Timetable, timetable: Timetable, move: Move, now: datetime) -> bool:
    """Whether the next beat is the one before or, if that is the one that moves, where it goes."""
    if was.window is not None:
        # The plan has looked for a beat that the window allows.
        return True
    before, after = was.next_after(now), timetable.next_after(now)
    if before is not None and before < move.old_next_at:
        return after == before
    return after is not None and seconds_of(after) == seconds_of(move.new_next_at)


def cursor_after(
    job: JobToPlace, timetable: Timetable, move: Move, now: datetime
) -> datetime | None:
    """The next beat of a job that moves; None: the one it waits for stays."""
    cursor, in_hand = job.next_beat_at, job.beat_at if job.is_beating else None
    if in_hand is not None and (cursor is None or cursor <= in_hand):
        # Its run will find the plan changed, and leave the cursor to us.
        following = timetable.next_after(in_hand, job.runs_so_far + 1)
        if following is None:
            raise Conflict(f"job {job.uid} is at its last run; make another plan")
        return following
    if cursor is None or cursor < move.old_next_at:
        return None
    return timetable.next_after(now, job.runs_so_far)
