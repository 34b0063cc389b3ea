"""Whatever happens to a job, the map counts it where it beats, and runs never move its phase."""

from dataclasses import replace
from datetime import timedelta

import pytest

from evenbeat.core.jobs.model import Job, State
from evenbeat.core.runs.outcome import Snoozed
from evenbeat.core.time.durations import format_duration
from tests.conftest import START
from tests.placement.placed_jobs import HOUR, PlacedJobs, beat_of, phase_of, timed
from tests.store.given import FAILED
from tests.support.databases import Clock

ENDS = ["pause", "disable", "cancel", "delete"]


async def test_a_job_that_is_added_comes_back_with_its_place(placed: PlacedJobs) -> None:
    job = await placed.make()
    assert await placed.jobs.get(job.uid) == job
    assert phase_of(job) is not None
    assert START < beat_of(job) <= START + HOUR
    assert (job.version, await placed.placed_at(job)) == (1, START)


async def test_jobs_added_one_by_one_spread_over_their_interval(placed: PlacedJobs) -> None:
    beats = sorted([beat_of(await placed.make()) for _ in range(8)])
    slots = [(beat - START) // timedelta(minutes=15) % 4 for beat in beats]
    assert sorted(slots) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set((await placed.true_ring()).slot) == {2}


async def test_jobs_added_at_once_spread_as_well(placed: PlacedJobs) -> None:
    batch = await placed.jobs.add_many([timed("every 30m")] * 30 + [timed("every 1h")] * 60)
    made = [await placed.jobs.get(uid) for uid in batch.uids]
    assert all(START < beat_of(job) <= START + HOUR for job in made)
    assert set((await placed.true_ring()).minute) == {2}
    assert await placed.count() == 90


@pytest.mark.parametrize("end", ENDS)
async def test_a_job_that_people_end_leaves_the_map(placed: PlacedJobs, end: str) -> None:
    kept, ended = await placed.make(), await placed.make()
    await getattr(placed.jobs, end)(ended.uid)
    assert await placed.count() == 1
    assert await placed.placed_at(kept) == START
    assert await placed.fetch("select 1 from evenbeat.unplaced") == []


async def test_a_job_that_has_failed_and_is_deleted_leaves_the_map(placed: PlacedJobs) -> None:
    """Its schedule was still followed, and its state does not change."""
    job = await placed.make()
    await placed.fetch(f"update evenbeat.pulse set state = 'f' where id = {job.id}")
    await placed.jobs.delete(job.uid)
    assert await placed.count() == 0


@pytest.mark.parametrize(("stop", "resume"), [("pause", "resume"), ("disable", "enable")])
async def test_a_job_that_is_resumed_is_placed_anew(
    placed: PlacedJobs, clock: Clock, stop: str, resume: str
) -> None:
    job = await placed.make()
    await getattr(placed.jobs, stop)(job.uid)
    # Its old phase has filled up since.
    for _ in range(3):
        await placed.make(f"every 1h phase={format_duration(phase_of(job) or HOUR)}")
    now = await clock.advance(hours=5)
    again = await getattr(placed.jobs, resume)(job.uid)
    assert phase_of(again) != phase_of(job)
    assert now < beat_of(again) <= now + HOUR
    assert (again.version, await placed.placed_at(job)) == (1, now)
    assert await placed.count() == 4


async def test_a_new_interval_is_placed_anew_and_a_new_payload_is_not(
    placed: PlacedJobs, clock: Clock
) -> None:
    job = await placed.make()
    now = await clock.advance(minutes=1)
    written = (await placed.find(job)).definition
    same = await placed.jobs.edit(job.uid, replace(written, payload={"pages": 2}))
    assert (phase_of(same), beat_of(same)) == (phase_of(job), beat_of(job))
    assert await placed.placed_at(job) == START
    other = await placed.change(job, schedule="every 10m")
    assert now < beat_of(other) <= now + timedelta(minutes=10)
    assert await placed.placed_at(job) == now
    assert await placed.count() == 1


async def test_a_new_window_is_kept_to(placed: PlacedJobs) -> None:
    job = await placed.make("every 1d")
    moved = await placed.change(job, schedule="every 1d", window="01:00-02:00")
    assert START.replace(day=2, hour=1) <= beat_of(moved) < START.replace(day=2, hour=2)
    assert await placed.count() == 1


async def test_every_run_keeps_the_rhythm(placed: PlacedJobs, clock: Clock) -> None:
    job = await placed.make()
    for number in range(3):
        await clock.set_to(beat_of(job) + number * HOUR)
        await placed.finish(job)
        await placed.placement.place_waiting()
    after = await placed.find(job)
    assert beat_of(after) == beat_of(job) + 3 * HOUR
    assert phase_of(after) == phase_of(job)


async def test_runs_by_hand_retries_and_snoozes_never_move_the_phase(
    placed: PlacedJobs, clock: Clock
) -> None:
    job = await placed.make()
    await placed.jobs.run(job.uid)
    await placed.finish(job)
    assert beat_of(await placed.find(job)) == beat_of(job)
    await clock.set_to(beat_of(job))
    await placed.finish(job, Snoozed(timedelta(minutes=2)))
    await clock.advance(minutes=2)
    await placed.finish(job, FAILED)
    await clock.advance(minutes=2)
    await placed.finish(job)
    await placed.placement.place_waiting()
    after = await placed.find(job)
    assert (phase_of(after), beat_of(after)) == (phase_of(job), beat_of(job) + HOUR)
    assert await placed.placed_at(job) == START


async def test_a_cancelled_job_that_is_retried_comes_back_at_its_old_phase(
    placed: PlacedJobs, clock: Clock
) -> None:
    job = await placed.make()
    await placed.jobs.cancel(job.uid)
    await placed.jobs.retry(job.uid)
    assert (await placed.placement.ring()).job_count == 0
    await clock.advance(minutes=1)
    await placed.finish(job)
    await placed.placement.place_waiting()
    assert phase_of(await placed.find(job)) == phase_of(job)
    assert await placed.count() == 1


async def test_a_job_edited_while_it_runs_is_placed_and_the_end_of_its_run_keeps_that(
    placed: PlacedJobs, clock: Clock
) -> None:
    job = await placed.make()
    now = await clock.set_to(beat_of(job))
    claimed = await placed.start(job)
    edited = await placed.change(job, schedule="every 20m")
    assert now < beat_of(edited) <= now + timedelta(minutes=20)
    assert await placed.end(claimed) == {claimed.run.id}
    assert beat_of(await placed.find(job)) == beat_of(edited)
    assert await placed.count() == 1


async def test_an_owed_beat_is_kept(placed: PlacedJobs, clock: Clock) -> None:
    # Stored, and not placed before its first beat came.
    job = await placed.add(timed("every 1h"), due_at=START + HOUR)
    await clock.advance(hours=1)
    await placed.placement.place_waiting()
    assert beat_of(await placed.find(job)) == START + HOUR
    await placed.finish(job)
    assert beat_of(await placed.find(job)) == START + 2 * HOUR
    assert await placed.count() == 1


@pytest.mark.parametrize(
    "more",
    [
        {"schedule": "every 1h phase=7m"},
        {"schedule": "every 1h", "balance": False},
        {"schedule": "every 1h", "starts_at": "2030-01-01T12:30:00Z"},
        {"schedule": "daily 06:00"},
        {"schedule": "*/5 * * * *"},
    ],
    ids=str,
)
async def test_a_phase_that_a_person_chose_is_counted_and_never_moved(
    placed: PlacedJobs, more: dict[str, object]
) -> None:
    planned = timed(**more).timetable.planned_at(START)  # type: ignore[arg-type]
    job = await placed.make(**more)  # type: ignore[arg-type]
    assert job.definition.timetable == planned
    assert beat_of(job) == planned.next_after(START)
    assert await placed.placed_at(job) is None
    ring = await placed.true_ring()
    assert ring.pinned.sum() == ring.slot.sum() > 0


async def test_one_off_jobs_are_not_in_the_map(placed: PlacedJobs) -> None:
    await placed.make("now")
    await placed.make("once 2030-01-02T00:00:00Z")
    assert await placed.fetch("select 1 from evenbeat.unplaced") == []
    assert await placed.count() == 0


async def test_slack_is_used_and_every_beat_comes_by_as_much_later(
    placed: PlacedJobs, clock: Clock
) -> None:
    jobs = [await placed.make("daily 13:00", within="30m") for _ in range(4)]
    delays = sorted(beat_of(job) - START - HOUR for job in jobs)
    assert len(set(delays)) == 4
    assert timedelta(0) <= delays[0]
    assert delays[-1] <= timedelta(minutes=30)
    late = next(job for job in jobs if beat_of(job) - START - HOUR == delays[-1])
    await clock.set_to(beat_of(late))
    await placed.finish(late)
    after = await placed.find(late)
    assert beat_of(after) == beat_of(late) + timedelta(days=1)
    assert await placed.count() == 4


async def test_a_beat_put_off_by_slack_does_not_run_twice_after_an_edit(
    placed: PlacedJobs, clock: Clock
) -> None:
    job = await placed.make("daily 13:00", within="10m")
    await clock.set_to(beat_of(job))
    await placed.finish(job)
    edited = await placed.change(job, schedule="daily 13:00", within="6h")
    assert beat_of(edited) >= START + HOUR + timedelta(days=1)


async def test_a_job_runs_where_it_prefers(placed: PlacedJobs) -> None:
    for _ in range(5):
        job = await placed.make("every 1d", prefers="01:00-05:00")
        assert 1 <= beat_of(job).hour < 5


async def test_placements_are_counted_in_the_metrics(placed: PlacedJobs) -> None:
    job: Job = await placed.make()
    await placed.jobs.pause(job.uid)
    await placed.jobs.resume(job.uid)
    counter = placed.placement._metrics.placements
    assert counter.labels("new")._value.get() == 1
    assert counter.labels("reschedule")._value.get() == 1
    assert (await placed.find(job)).pulse.state is State.SCHEDULED
