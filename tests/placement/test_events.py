"""Whatever happens to a job, the map has it where it beats, and its rhythm is its own."""

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


async def test_a_job_that_is_added_comes_back_with_its_place(placed_jobs: PlacedJobs) -> None:
    job = await placed_jobs.make()
    assert await placed_jobs.jobs.get(job.uid) == job
    assert phase_of(job) is not None
    assert START < beat_of(job) <= START + HOUR
    assert (job.version, await placed_jobs.placed_at(job)) == (1, START)


async def test_jobs_added_one_by_one_spread_over_their_interval(placed_jobs: PlacedJobs) -> None:
    beats = sorted([beat_of(await placed_jobs.make()) for _ in range(8)])
    slots = [(beat - START) // timedelta(minutes=15) % 4 for beat in beats]
    assert sorted(slots) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set((await placed_jobs.true_ring()).slot) == {2}


async def test_jobs_added_at_once_spread_as_well(placed_jobs: PlacedJobs) -> None:
    batch = await placed_jobs.jobs.add_many([timed("every 30m")] * 30 + [timed("every 1h")] * 60)
    made = [await placed_jobs.jobs.get(uid) for uid in batch.uids]
    assert all(START < beat_of(job) <= START + HOUR for job in made)
    assert set((await placed_jobs.true_ring()).minute) == {2}
    assert await placed_jobs.count() == 90


@pytest.mark.parametrize("end", ENDS)
async def test_what_people_end_leaves_the_map(placed_jobs: PlacedJobs, end: str) -> None:
    kept, ended = await placed_jobs.make(), await placed_jobs.make()
    await getattr(placed_jobs.jobs, end)(ended.uid)
    assert await placed_jobs.count() == 1
    assert await placed_jobs.placed_at(kept) == START
    assert await placed_jobs.fetch("select 1 from evenbeat.unplaced") == []


async def test_a_job_that_has_failed_and_is_deleted_leaves_the_map(placed_jobs: PlacedJobs) -> None:
    """It was still beating, and its state says the same as before."""
    job = await placed_jobs.make()
    await placed_jobs.fetch(f"update evenbeat.pulse set state = 'f' where id = {job.id}")
    await placed_jobs.jobs.delete(job.uid)
    assert await placed_jobs.count() == 0


@pytest.mark.parametrize(("aside", "back"), [("pause", "resume"), ("disable", "enable")])
async def test_what_is_taken_up_again_is_placed_anew(
    placed_jobs: PlacedJobs, clock: Clock, aside: str, back: str
) -> None:
    job = await placed_jobs.make()
    await getattr(placed_jobs.jobs, aside)(job.uid)
    # Where it was has filled up since.
    for _ in range(3):
        await placed_jobs.make(f"every 1h phase={format_duration(phase_of(job) or HOUR)}")
    now = await clock.advance(hours=5)
    again = await getattr(placed_jobs.jobs, back)(job.uid)
    assert phase_of(again) != phase_of(job)
    assert now < beat_of(again) <= now + HOUR
    assert (again.version, await placed_jobs.placed_at(job)) == (1, now)
    assert await placed_jobs.count() == 4


async def test_a_new_interval_is_placed_anew_and_a_new_payload_is_not(
    placed_jobs: PlacedJobs, clock: Clock
) -> None:
    job = await placed_jobs.make()
    now = await clock.advance(minutes=1)
    written = (await placed_jobs.find(job)).definition
    same = await placed_jobs.jobs.edit(job.uid, replace(written, payload={"pages": 2}))
    assert (phase_of(same), beat_of(same)) == (phase_of(job), beat_of(job))
    assert await placed_jobs.placed_at(job) == START
    other = await placed_jobs.change(job, schedule="every 10m")
    assert now < beat_of(other) <= now + timedelta(minutes=10)
    assert await placed_jobs.placed_at(job) == now
    assert await placed_jobs.count() == 1


async def test_a_new_window_is_kept_to(placed_jobs: PlacedJobs) -> None:
    job = await placed_jobs.make("every 1d")
    moved = await placed_jobs.change(job, schedule="every 1d", window="01:00-02:00")
    assert START.replace(day=2, hour=1) <= beat_of(moved) < START.replace(day=2, hour=2)
    assert await placed_jobs.count() == 1


async def test_every_run_keeps_the_rhythm(placed_jobs: PlacedJobs, clock: Clock) -> None:
    job = await placed_jobs.make()
    for number in range(3):
        await clock.set_to(beat_of(job) + number * HOUR)
        await placed_jobs.finish(job)
        await placed_jobs.placement.place_waiting()
    after = await placed_jobs.find(job)
    assert beat_of(after) == beat_of(job) + 3 * HOUR
    assert phase_of(after) == phase_of(job)


async def test_runs_by_hand_retries_and_snoozes_never_move_the_phase(
    placed_jobs: PlacedJobs, clock: Clock
) -> None:
    job = await placed_jobs.make()
    await placed_jobs.jobs.run(job.uid)
    await placed_jobs.finish(job)
    assert beat_of(await placed_jobs.find(job)) == beat_of(job)
    await clock.set_to(beat_of(job))
    await placed_jobs.finish(job, Snoozed(timedelta(minutes=2)))
    await clock.advance(minutes=2)
    await placed_jobs.finish(job, FAILED)
    await clock.advance(minutes=2)
    await placed_jobs.finish(job)
    await placed_jobs.placement.place_waiting()
    after = await placed_jobs.find(job)
    assert (phase_of(after), beat_of(after)) == (phase_of(job), beat_of(job) + HOUR)
    assert await placed_jobs.placed_at(job) == START


async def test_a_job_that_was_ended_and_is_retried_is_in_the_map_where_it_was(
    placed_jobs: PlacedJobs, clock: Clock
) -> None:
    job = await placed_jobs.make()
    await placed_jobs.jobs.cancel(job.uid)
    await placed_jobs.jobs.retry(job.uid)
    assert (await placed_jobs.placement.ring()).job_count == 0
    await clock.advance(minutes=1)
    await placed_jobs.finish(job)
    await placed_jobs.placement.place_waiting()
    assert phase_of(await placed_jobs.find(job)) == phase_of(job)
    assert await placed_jobs.count() == 1


async def test_a_job_edited_while_it_runs_is_placed_and_its_run_leaves_that_alone(
    placed_jobs: PlacedJobs, clock: Clock
) -> None:
    job = await placed_jobs.make()
    now = await clock.set_to(beat_of(job))
    claimed = await placed_jobs.start(job)
    edited = await placed_jobs.change(job, schedule="every 20m")
    assert now < beat_of(edited) <= now + timedelta(minutes=20)
    assert await placed_jobs.end(claimed) == {claimed.run.id}
    assert beat_of(await placed_jobs.find(job)) == beat_of(edited)
    assert await placed_jobs.count() == 1


async def test_an_owed_beat_is_kept(placed_jobs: PlacedJobs, clock: Clock) -> None:
    # Stored, and not placed before its first beat came.
    job = await placed_jobs.add(timed("every 1h"), due_at=START + HOUR)
    await clock.advance(hours=1)
    await placed_jobs.placement.place_waiting()
    assert beat_of(await placed_jobs.find(job)) == START + HOUR
    await placed_jobs.finish(job)
    assert beat_of(await placed_jobs.find(job)) == START + 2 * HOUR
    assert await placed_jobs.count() == 1


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
async def test_what_a_person_decided_is_counted_and_never_moved(
    placed_jobs: PlacedJobs, more: dict[str, object]
) -> None:
    planned = timed(**more).timetable.planned_at(START)  # type: ignore[arg-type]
    job = await placed_jobs.make(**more)  # type: ignore[arg-type]
    assert job.definition.timetable == planned
    assert beat_of(job) == planned.next_after(START)
    assert await placed_jobs.placed_at(job) is None
    ring = await placed_jobs.true_ring()
    assert ring.pinned.sum() == ring.slot.sum() > 0


async def test_one_off_jobs_are_nothing_to_the_map(placed_jobs: PlacedJobs) -> None:
    await placed_jobs.make("now")
    await placed_jobs.make("once 2030-01-02T00:00:00Z")
    assert await placed_jobs.fetch("select 1 from evenbeat.unplaced") == []
    assert await placed_jobs.count() == 0


async def test_slack_is_used_and_every_beat_comes_by_as_much_later(
    placed_jobs: PlacedJobs, clock: Clock
) -> None:
    jobs = [await placed_jobs.make("daily 13:00", within="30m") for _ in range(4)]
    delays = sorted(beat_of(job) - START - HOUR for job in jobs)
    assert len(set(delays)) == 4
    assert timedelta(0) <= delays[0]
    assert delays[-1] <= timedelta(minutes=30)
    late = next(job for job in jobs if beat_of(job) - START - HOUR == delays[-1])
    await clock.set_to(beat_of(late))
    await placed_jobs.finish(late)
    after = await placed_jobs.find(late)
    assert beat_of(after) == beat_of(late) + timedelta(days=1)
    assert await placed_jobs.count() == 4


async def test_a_beat_put_off_by_slack_does_not_run_twice_after_an_edit(
    placed_jobs: PlacedJobs, clock: Clock
) -> None:
    job = await placed_jobs.make("daily 13:00", within="10m")
    await clock.set_to(beat_of(job))
    await placed_jobs.finish(job)
    edited = await placed_jobs.change(job, schedule="daily 13:00", within="6h")
    assert beat_of(edited) >= START + HOUR + timedelta(days=1)


async def test_a_job_runs_where_it_prefers(placed_jobs: PlacedJobs) -> None:
    for _ in range(5):
        job = await placed_jobs.make("every 1d", prefers="01:00-05:00")
        assert 1 <= beat_of(job).hour < 5


async def test_it_is_told_what_was_placed(placed_jobs: PlacedJobs) -> None:
    job: Job = await placed_jobs.make()
    await placed_jobs.jobs.pause(job.uid)
    await placed_jobs.jobs.resume(job.uid)
    counter = placed_jobs.placement._metrics.placements
    assert counter.labels("new")._value.get() == 1
    assert counter.labels("reschedule")._value.get() == 1
    assert (await placed_jobs.find(job)).pulse.state is State.SCHEDULED
