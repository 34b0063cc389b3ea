"""A plan is written as a whole: beats before a move stay, and beats after it move."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from evenbeat.core.balance.model import Move
from evenbeat.core.balance.rebalance import plan_rebalance
from evenbeat.core.balance.score import measure_score
from evenbeat.core.errors import Conflict
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Job
from tests.conftest import START
from tests.placement.placed_jobs import HOUR, PlacedJobs, beat_of, open_placed_jobs, phase_of, timed
from tests.support.databases import Clock

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def crowd(placed: PlacedJobs) -> PlacedJobs:
    """Forty hourly jobs that all beat at :00, since nothing was placed when they were added."""
    crowded = await open_placed_jobs(placed.database, "observe")
    await crowded.jobs.add_many([timed("every 1h")] * 40)
    return placed


async def apply_moves(placed: PlacedJobs, *moves: Move) -> None:
    async with placed.database.transaction() as session:
        await placed.placement.move(session, moves)


def moved(job: Job, by: timedelta, at: datetime) -> Move:
    """The job's beat at this instant comes later or earlier by so much."""
    phase = phase_of(job)
    assert phase is not None
    new_phase = (phase + by) % HOUR
    return Move(
        job.id, phase // MINUTE * 60, new_phase // timedelta(seconds=1), at, at + by, at + by
    )


async def test_a_plan_of_a_rebalance_is_written_and_does_what_it_said(crowd: PlacedJobs) -> None:
    mapped = await crowd.placement.candidates()
    plan = plan_rebalance([each.candidate for each in mapped], START)
    assert len(plan.moves) > 20
    expected = {each.candidate.load.job: each.footprint for each in mapped}
    async with crowd.database.transaction() as session:
        await crowd.placement.move(session, plan.moves, expected=expected)
    assert measure_score(await crowd.true_ring()).score == plan.after.score > plan.before.score
    uids = {each.candidate.load.job: each.uid for each in mapped}
    for move in plan.moves:
        job = await crowd.jobs.get(uids[move.job])
        following = job.definition.timetable.next_after(move.effective_from)
        assert beat_of(job) == min(move.new_next_at, beat_of(job))
        assert following == move.effective_from + HOUR
        assert (job.version, await crowd.placed_at(job)) == (1, START)


@pytest.mark.parametrize("minutes", [-20, 20])
async def test_beats_before_the_move_stay_and_none_is_lost_or_added(
    placed: PlacedJobs, clock: Clock, minutes: int
) -> None:
    job = await placed.make()
    first, by = beat_of(job), minutes * MINUTE
    await apply_moves(placed, moved(job, by, first + 2 * HOUR))
    after = await placed.find(job)
    assert beat_of(after) == first
    beats = after.definition.timetable.next_beats(START, 5)
    assert beats == (first, first + HOUR, *(first + k * HOUR + by for k in (2, 3, 4)))
    for beat in beats:
        assert beat_of(await placed.find(job)) == beat
        await clock.set_to(beat)
        await placed.finish(job)
    assert await placed.count() == 1


async def test_of_a_short_interval_the_next_beat_stays_and_the_one_after_it_moves(
    placed: PlacedJobs, clock: Clock
) -> None:
    crowded = await open_placed_jobs(placed.database, "observe")
    await crowded.jobs.add_many([timed("every 30m")] * 6)
    mapped = await placed.placement.candidates()
    plan = plan_rebalance([each.candidate for each in mapped], START)
    assert plan.skipped == ()
    await apply_moves(placed, *plan.moves)
    jobs = {each.candidate.load.job: await placed.jobs.get(each.uid) for each in mapped}
    assert {beat_of(job) for job in jobs.values()} == {START + HOUR / 2}
    await clock.set_to(START + HOUR / 2)
    for claimed in await placed.take_all():
        await placed.end(claimed)
    expected = {move.job: move.effective_from for move in plan.moves}
    assert len(expected) > 3
    for job_id, job in jobs.items():
        assert beat_of(await placed.find(job)) == expected.get(job_id, START + HOUR)


async def test_a_run_in_hand_ends_as_it_would_and_the_next_beat_is_that_of_the_plan(
    placed: PlacedJobs, clock: Clock
) -> None:
    job = await placed.make()
    first = beat_of(job)
    await clock.set_to(first)
    claimed = await placed.start(job)
    await apply_moves(placed, moved(job, 20 * MINUTE, first + HOUR))
    assert await placed.end(claimed) == {claimed.run.id}
    assert beat_of(await placed.find(job)) == first + HOUR + 20 * MINUTE


async def test_a_retry_that_waits_is_run_by_the_new_plan(placed: PlacedJobs, clock: Clock) -> None:
    job = await placed.make()
    first = beat_of(job)
    await clock.set_to(first)
    await placed.fail(job)
    await apply_moves(placed, moved(job, 20 * MINUTE, first + HOUR))
    await clock.advance(minutes=2)
    await placed.finish(job)
    assert beat_of(await placed.find(job)) == first + HOUR + 20 * MINUTE


async def test_a_job_can_be_moved_back(placed: PlacedJobs) -> None:
    job = await placed.make()
    at = beat_of(job) + HOUR
    await apply_moves(placed, moved(job, 20 * MINUTE, at))
    await apply_moves(placed, moved(await placed.find(job), -20 * MINUTE, at + 20 * MINUTE))
    after = await placed.find(job)
    assert phase_of(after) == phase_of(job)
    assert after.definition.timetable.next_after(at - MINUTE) == at


async def test_a_job_that_beats_between_two_seconds_gets_back_exactly_what_it_had(
    placed: PlacedJobs, clock: Clock
) -> None:
    observed = await open_placed_jobs(placed.database, "observe")
    await clock.advance(milliseconds=300)
    job = await observed.make()
    second = beat_of(job).replace(microsecond=0)
    assert second < beat_of(job)
    there = moved(job, 20 * MINUTE, second + HOUR)
    away, home = (there.new_phase_s, there.new_next_at), (there.old_phase_s, there.old_next_at)
    farther = (away[0] + 600, away[1] + 10 * MINUTE)
    for old, new in ((home, away), (away, farther), (farther, home)):
        await apply_moves(placed, Move(job.id, old[0], new[0], old[1], new[1], new[1]))
        assert await placed.count() == 1
    after = await placed.find(job)
    assert (after.definition, beat_of(after)) == (job.definition, beat_of(job))


def day_moved(job: Job, old: tuple[int, datetime], new: tuple[int, datetime]) -> Move:
    """Hours of phase and beats of a daily job."""
    return Move(job.id, old[0] * 3600, new[0] * 3600, old[1], new[1], new[1])


async def test_a_job_that_is_moved_again_before_it_has_moved_gets_no_other_beat(
    placed: PlacedJobs, clock: Clock
) -> None:
    midnight = START.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    observed = await open_placed_jobs(placed.database, "observe")
    await clock.set_to(midnight - 4 * HOUR)
    job = await observed.make("every 24h")
    await clock.set_to(midnight)
    evening, early, later = (midnight + hours * HOUR for hours in (20, 30, 33))
    assert beat_of(job) == evening
    await apply_moves(placed, day_moved(job, (20, evening), (6, early)))
    assert beat_of(await placed.find(job)) == early
    await clock.advance(hours=2)
    [mapped] = await placed.placement.candidates()
    assert mapped.candidate.is_moving
    await apply_moves(placed, day_moved(job, (6, early), (9, later)))
    after = await placed.find(job)
    assert beat_of(after) == later
    day = timedelta(days=1)
    assert after.definition.timetable.next_beats(midnight, 2) == (later, later + day)
    # Taken back one after the other, it is where it was.
    await apply_moves(placed, day_moved(job, (9, later), (6, early)))
    assert beat_of(await placed.find(job)) == early
    await apply_moves(placed, day_moved(job, (6, early), (20, evening)))
    assert beat_of(await placed.find(job)) == evening
    await placed.true_ring()


async def test_a_job_that_is_still_to_move_cannot_move_from_a_later_beat_on(
    placed: PlacedJobs, clock: Clock
) -> None:
    job = await placed.make()
    first = beat_of(job)
    await apply_moves(placed, moved(job, 20 * MINUTE, first + 2 * HOUR))
    again = moved(await placed.find(job), 5 * MINUTE, first + 3 * HOUR + 20 * MINUTE)
    with pytest.raises(Conflict, match="gain or lose a beat"):
        await apply_moves(placed, again)
    await clock.advance(hours=1, minutes=1)
    [mapped] = await placed.placement.candidates()
    [skipped] = plan_rebalance([mapped.candidate], await placed.now()).skipped
    assert skipped.reason == "placement_cooldown"


async def test_a_move_beyond_the_end_of_a_job_is_refused(placed: PlacedJobs) -> None:
    ends_at = START + 70 * MINUTE
    job = await placed.make("every 1h", ends_at=ends_at.isoformat())
    first = beat_of(job)
    with pytest.raises(Conflict, match="gain or lose a beat"):
        await apply_moves(placed, moved(job, ends_at - first + MINUTE, first))
    assert beat_of(await placed.find(job)) == first


@pytest.mark.parametrize("change", ["pause", "interval", "phase", "delete"])
async def test_a_plan_for_a_job_that_has_changed_is_refused_whole(
    placed: PlacedJobs, clock: Clock, change: str
) -> None:
    kept, job = await placed.make(), await placed.make()
    moves = [moved(each, 10 * MINUTE, beat_of(each) + 2 * HOUR) for each in (kept, job)]
    if change == "phase":
        await apply_moves(placed, moved(job, 5 * MINUTE, beat_of(job) + HOUR))
    elif change == "interval":
        await placed.change(job, schedule="every 7m")
    else:
        await getattr(placed.jobs, change)(job.uid)
    before = await placed.find(kept)
    with pytest.raises(Conflict, match="since the plan was made"):
        await apply_moves(placed, *moves)
    assert await placed.find(kept) == before
    await placed.true_ring()


async def test_a_plan_whose_beats_have_come_is_refused(placed: PlacedJobs, clock: Clock) -> None:
    job = await placed.make()
    move = moved(job, 10 * MINUTE, beat_of(job))
    await clock.set_to(beat_of(job))
    with pytest.raises(Conflict, match="too old"):
        await apply_moves(placed, move)


async def test_a_footprint_that_is_not_as_expected_is_refused(placed: PlacedJobs) -> None:
    job = await placed.make()
    [mapped] = await placed.placement.candidates()
    move = moved(job, 10 * MINUTE, beat_of(job) + HOUR)
    other = {job.id: replace(mapped.footprint, interval_s=7200)}
    with pytest.raises(Conflict):
        async with placed.database.transaction() as session:
            await placed.placement.move(session, [move], expected=other)


async def test_candidates_say_who_they_are_and_what_keeps_them(
    placed: PlacedJobs, clock: Clock
) -> None:
    job = await placed.jobs.add(replace(timed("every 1h"), name="mine"))
    await placed.make("every 1h phase=5m")
    await clock.set_to(beat_of(job))
    await placed.start(job)
    mine, other = await placed.placement.candidates()
    assert (mine.uid, mine.name, mine.candidate.is_running) == (job.uid, "mine", True)
    assert mine.candidate.last_placed_at == START
    assert mine.candidate.next_beat_at == beat_of(job)
    assert other.candidate.load.is_fixed


async def test_candidates_may_be_those_of_a_group(placed: PlacedJobs) -> None:
    await placed.make()
    grouped = await placed.jobs.add(replace(timed("every 1h"), group=Group("site")))
    assert [each.uid for each in await placed.placement.candidates("site")] == [grouped.uid]
