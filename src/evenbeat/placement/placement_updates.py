"""Decides what the map will count of each job that waits, and which phase the job gets."""

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
from evenbeat.store.balance.load_map import BalancedJob, MapUpdate

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job that got a phase: how it beats from now on, and when first."""

    uid: UUID
    timetable: Timetable
    next_beat_at: datetime
    at: datetime
    is_new: bool
    # The number of runs that start in the slot of its next beat.
    load: int


def decide_updates(
    ring: LoadRing, jobs: Sequence[BalancedJob], now: datetime, *, may_place: bool
) -> list[MapUpdate]:
    """Decide for each job, and change the ring to what it is once all of it is written.

    All that is counted of these jobs leaves the ring first, so that no job avoids its own load.
    Jobs that keep their phase come back before others choose, else their slots would look free.
    """
    for job in jobs:
        if job.counted is not None:
            ring.remove(job.counted.load(ring.start_s))
    free = [job for job in jobs if may_place and may_place_anywhere(job, now)]
    choosing = {job.job_id for job in free}
    decided = {job.job_id: keep_phase(ring, job) for job in jobs if job.job_id not in choosing}
    decided |= {each.job.job_id: each for each in choose_phases(ring, free, now)}
    return [decided.get(job.job_id) or keep_phase(ring, job) for job in jobs]


def may_place_anywhere(job: BalancedJob, now: datetime) -> bool:
    """Whether the job may get any phase: it has not beaten yet, and no beat of it is overdue."""
    if not job.should_count or not job.is_fresh or job.timetable is None:
        return False
    is_owed = job.next_beat_at is None or job.next_beat_at <= now
    return job.timetable.is_free and not is_owed


def keep_phase(ring: LoadRing, job: BalancedJob) -> MapUpdate:
    """Count the job at the phase it has, if the map should count it."""
    if not job.should_count or job.timetable is None:
        return MapUpdate(job, None)
    footprint = Footprint.of_timetable(job.timetable, job.cost)
    ring.add(footprint.load(ring.start_s))
    return MapUpdate(job, footprint)


def undo_update(ring: LoadRing, update: MapUpdate) -> None:
    """Change the ring back to what it was before this update."""
    if update.footprint is not None:
        ring.remove(update.footprint.load(ring.start_s))
    if update.job.counted is not None:
        ring.add(update.job.counted.load(ring.start_s))


def choose_phases(ring: LoadRing, jobs: Sequence[BalancedJob], now: datetime) -> list[MapUpdate]:
    if not jobs:
        return []
    loads = [unplaced_load(job, ring.start_s) for job in jobs]
    # Placing many at once costs several times as much for a single job.
    placements = (
        [place_job(ring, loads[0], now)] if len(loads) == 1 else place_jobs(ring, loads, now)
    )
    updates: list[MapUpdate] = []
    for job, load, placement in zip(jobs, loads, placements, strict=True):
        update = update_for_phase(job, placement.phase_s, now)
        if update is None:
            ring.remove(replace(load, phase_s=placement.phase_s))
        else:
            updates.append(update)
    return updates


def unplaced_load(job: BalancedJob, start_s: int) -> JobLoad:
    assert job.timetable is not None  # noqa: S101 - jobs without a timetable were left out
    load = Footprint.of_timetable(job.timetable, job.cost).load(start_s, job.job_id)
    return replace(load, phase_s=None)


def update_for_phase(job: BalancedJob, phase_s: int, now: datetime) -> MapUpdate | None:
    """The job at this phase; None: its bounds or its window would allow no beat there."""
    was, cursor = job.timetable, job.next_beat_at
    if was is None or cursor is None:
        return None
    phase, is_interval = timedelta(seconds=phase_s), isinstance(was.schedule, Every)
    # Of named instants only future ones move: an instant that ran today must not run again today.
    try:
        timetable = was.at_phase(phase) if is_interval else was.at_phase_from(phase, cursor)
    except InvalidInput:
        return None
    first_at = timetable.next_after(now, job.runs_so_far)
    if first_at is None:
        return None
    return MapUpdate(job, Footprint.of_timetable(timetable, job.cost), timetable, first_at)


def updates_for_moves(
    jobs: Sequence[BalancedJob],
    moves: Sequence[Move],
    now: datetime,
    *,
    expected: Mapping[int, Footprint] | None = None,
) -> list[MapUpdate]:
    """These moves of a plan; `expected` are the footprints that the plan was made with, by job."""
    by_id = {job.job_id: job for job in jobs}
    updates: list[MapUpdate] = []
    for move in moves:
        job = by_id.get(move.job)
        if job is None or (expected is not None and not is_unchanged(job, expected.get(move.job))):
            raise Conflict(f"job {move.job} has changed since the plan was made; make another")
        updates.append(update_for_move(job, move, now))
    return updates


def is_unchanged(job: BalancedJob, expected: Footprint | None) -> bool:
    """Whether the map still counts the job as expected; its cost may have changed."""
    counted = job.counted
    return (
        counted is not None
        and expected is not None
        and (counted.interval_s, counted.phase_s, counted.timetable)
        == (expected.interval_s, expected.phase_s, expected.timetable)
    )


def update_for_move(job: BalancedJob, move: Move, now: datetime) -> MapUpdate:
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
    return MapUpdate(
        job,
        Footprint.of_timetable(timetable, job.cost),
        timetable,
        cursor_after(job, timetable, move, now),
    )


def apply_move(was: Timetable, move: Move, now: datetime) -> Timetable | None:
    """The timetable after a move; None: another move of the job is to come, from another beat, and
    a timetable holds one move at a time.

    A move back to the phase that the job has not left yet cancels the move that was to come. A move
    from the beat at which another move was to come replaces that one; beats before it stay.

    Plans know whole seconds, but a job that was never placed beats at any fraction of one: moved
    back, it gets exactly the phase that it had.
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
    """Whether exactly the beat of the move moves, and every beat before it stays."""
    if was.window is not None:
        # The plan has chosen a beat that the window allows.
        return True
    before, after = was.next_after(now), timetable.next_after(now)
    if before is not None and before < move.old_next_at:
        return after == before
    return after is not None and seconds_of(after) == seconds_of(move.new_next_at)


def cursor_after(
    job: BalancedJob, timetable: Timetable, move: Move, now: datetime
) -> datetime | None:
    """The next beat of a job that moves; None: the next beat stays as it is."""
    cursor, running = job.next_beat_at, job.beat_at if job.is_beating else None
    if running is not None and (cursor is None or cursor <= running):
        # The run in progress will see that the plan has changed, and will not write the next beat.
        following = timetable.next_after(running, job.runs_so_far + 1)
        if following is None:
            raise Conflict(f"job {job.uid} is at its last run; make another plan")
        return following
    if cursor is None or cursor < move.old_next_at:
        return None
    return timetable.next_after(now, job.runs_so_far)
