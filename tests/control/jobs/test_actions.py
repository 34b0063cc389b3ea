"""What each action promises besides the state that it leads to."""

from dataclasses import replace

import pytest

from evenbeat.core.errors import IllegalTransition, NotFound
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Cause, ErrorClass, RunState, State
from evenbeat.core.runs.outcome import Outcome
from evenbeat.core.time.timetable import TimetableBounds
from evenbeat.store.jobs.new_uids import new_job_uid
from evenbeat.store.runs import leases
from tests.conftest import START
from tests.control.controlled_jobs import ANN, ONE_PLACE, Desk, due
from tests.store.given import DONE, FAILED, HOUR
from tests.support.databases import Clock


async def test_an_unknown_job_is_not_found(desk: Desk) -> None:
    nobody = new_job_uid(START)
    for act in (desk.jobs.pause, desk.jobs.run, desk.jobs.delete, desk.jobs.versions):
        with pytest.raises(NotFound, match=str(nobody)):
            await act(nobody)


async def test_run_now_moves_neither_the_schedule_nor_a_pause(desk: Desk, clock: Clock) -> None:
    job = await desk.jobs.pause((await desk.add(due(), due_at=START + HOUR)).uid)
    await desk.jobs.run(job.uid)
    claimed = await desk.start(job)
    assert (claimed.run.cause, claimed.run.attempt) == (Cause.MANUAL, 1)
    with pytest.raises(IllegalTransition, match="cannot run a job that is running"):
        await desk.jobs.run(job.uid)
    await desk.end(claimed)
    pulse = (await desk.look(job)).pulse
    assert (pulse.state, pulse.next_beat_at, pulse.due_at) == (State.PAUSED, START + HOUR, None)
    assert await desk.take_all() == []


async def test_run_now_brings_a_retry_that_waits_forward(desk: Desk, clock: Clock) -> None:
    job = await desk.add(due())
    await desk.fail(job)
    await clock.advance(seconds=1)
    await desk.jobs.run(job.uid)
    claimed = await desk.start(job)
    assert (claimed.run.cause, claimed.run.beat_at, claimed.run.attempt) == (
        Cause.RETRY,
        START,
        2,
    )
    await desk.end(claimed)
    assert await desk.take_all() == [], "one run, not one beside it"


async def test_asked_twice_it_runs_once(desk: Desk) -> None:
    job = await desk.add(due(), due_at=START + HOUR)
    await desk.jobs.run(job.uid)
    await desk.jobs.run(job.uid)
    await desk.finish(job)
    assert await desk.take_all() == []


async def test_a_run_by_hand_that_waits_does_not_outlive_a_pause(desk: Desk) -> None:
    job = await desk.add(due(), due_at=START + HOUR)
    await desk.jobs.run(job.uid)
    await desk.jobs.pause(job.uid)
    assert await desk.take_all() == []


async def test_a_one_off_job_paused_before_its_retry_by_hand_is_still_owed_it(
    desk: Desk, clock: Clock
) -> None:
    job = await desk.add(due("now"))
    await desk.finish(job)
    await clock.advance(minutes=1)
    await desk.jobs.retry(job.uid)
    await desk.jobs.pause(job.uid)
    assert await desk.take_all() == []
    await desk.jobs.resume(job.uid)
    await desk.finish(job)
    assert (await desk.look(job)).pulse.state is State.COMPLETED


async def test_the_beats_of_a_pause_are_passed_over_in_the_rhythm_of_the_job(
    desk: Desk, clock: Clock
) -> None:
    job = await desk.jobs.pause((await desk.add(due())).uid)
    await clock.advance(hours=5, minutes=20)
    after = await desk.jobs.resume(job.uid)
    assert after.pulse.due_at == START + 6 * HOUR


async def test_a_paused_one_off_job_is_still_owed_its_beat(desk: Desk, clock: Clock) -> None:
    job = await desk.jobs.pause((await desk.add(due("now"))).uid)
    await clock.advance(days=1)
    assert (await desk.jobs.resume(job.uid)).pulse.due_at == START


async def test_a_job_whose_schedule_ended_during_its_pause_is_completed(
    desk: Desk, clock: Clock
) -> None:
    ending = replace(due().timetable, bounds=TimetableBounds(ends_at=START + 2 * HOUR))
    job = await desk.jobs.pause((await desk.add(replace(due(), timetable=ending))).uid)
    await clock.advance(hours=3)
    assert (await desk.jobs.resume(job.uid)).pulse.state is State.COMPLETED


@pytest.mark.parametrize("outcome", [DONE, FAILED])
@pytest.mark.parametrize("schedule", ["now", "every 1h"])
async def test_a_job_that_ends_with_its_run_is_not_paused_after_it(
    desk: Desk, schedule: str, outcome: Outcome
) -> None:
    job = await desk.add(due(schedule, policy={"max_attempts": 1}))
    claimed = await desk.start(job)
    await desk.jobs.pause(job.uid)
    await desk.end(claimed, outcome=outcome)
    over = State.COMPLETED if outcome is DONE else State.FAILED
    state = (await desk.look(job)).pulse.state
    assert state is (over if schedule == "now" else State.PAUSED)


async def test_a_pause_that_is_taken_back_during_the_run_leaves_no_trace(
    desk: Desk, clock: Clock
) -> None:
    job = await desk.add(due())
    claimed = await desk.start(job)
    assert (await desk.jobs.pause(job.uid)).pulse.wanted is State.PAUSED
    assert (await desk.jobs.resume(job.uid)).pulse.wanted is None
    await desk.end(claimed)
    pulse = (await desk.look(job)).pulse
    assert (pulse.state, pulse.due_at) == (State.SCHEDULED, START + HOUR)


async def test_a_paused_job_resumed_during_its_run_by_hand_goes_on_with_its_schedule(
    desk: Desk, clock: Clock
) -> None:
    job = await desk.jobs.pause((await desk.add(due())).uid)
    await clock.advance(hours=3, minutes=10)
    await desk.jobs.run(job.uid)
    claimed = await desk.start(job)
    await desk.jobs.resume(job.uid)
    await desk.end(claimed)
    pulse = (await desk.look(job)).pulse
    assert (pulse.state, pulse.due_at) == (State.SCHEDULED, START + 4 * HOUR)


async def test_a_retry_by_hand_counts_its_attempts_anew_and_clears_the_failure(
    desk: Desk,
) -> None:
    job = await desk.add(due(policy={"max_attempts": 1}))
    await desk.fail(job)
    assert (await desk.look(job)).pulse.state is State.FAILED
    await desk.jobs.retry(job.uid)
    claimed = await desk.start(job)
    assert (claimed.run.cause, claimed.run.attempt) == (Cause.MANUAL, 1)
    await desk.end(claimed)
    pulse = (await desk.look(job)).pulse
    assert (pulse.state, pulse.next_beat_at) == (State.SCHEDULED, START + HOUR)


async def test_a_deleted_job_is_gone_its_name_is_free_and_its_history_stays(
    desk: Desk, clock: Clock
) -> None:
    job = await desk.add(due(name="nightly"))
    await desk.finish(job)
    await desk.jobs.delete(job.uid, by=ANN)
    with pytest.raises(NotFound):
        await desk.jobs.get(job.uid)
    with pytest.raises(NotFound):
        await desk.jobs.delete(job.uid)
    assert (await desk.jobs.get(job.uid, with_deleted=True)).definition.name == "nightly"
    assert [run.state for run in await desk.history(job)] == [RunState.COMPLETED]
    assert [entry.action for entry in await desk.audit(job=job.uid)] == ["delete"]
    again = await desk.add(due("every 9h", name="nightly"), due_at=START + 9 * HOUR)
    await clock.advance(hours=5)
    assert await desk.take_all() == []
    assert (await desk.look(again)).pulse.state is State.SCHEDULED


@pytest.mark.parametrize("outcome", [DONE, FAILED])
async def test_a_running_job_that_is_deleted_is_stopped_by_its_node(
    desk: Desk, clock: Clock, outcome: Outcome
) -> None:
    job = await desk.add(due(group=ONE_PLACE))
    claimed = await desk.start(job)
    await desk.jobs.delete(job.uid)
    assert await leases.find_unwanted_runs(desk.database, desk.node_id) == {claimed.run.id}
    await desk.end(claimed, outcome=outcome)
    assert len(await desk.history(job)) == 1
    assert await desk.value("select count(*) from evenbeat.permit") == 0
    await clock.advance(days=1)
    assert await desk.take_all() == []


async def test_a_released_run_is_due_again_at_once_and_was_no_attempt(
    desk: Desk, clock: Clock
) -> None:
    job, other = [await desk.add(due(group=ONE_PLACE)) for _ in range(2)]
    stuck = await desk.start(job)
    await clock.advance(minutes=1)
    after = await desk.jobs.release(job.uid, by=ANN)
    assert after.pulse.due_at == clock.now
    [run] = await desk.history(job)
    assert (run.state, run.error_class, run.reason) == (
        RunState.CANCELLED,
        ErrorClass.HANDED_BACK,
        "released by ann",
    )
    assert (await desk.look(other)).pulse.state is State.SCHEDULED, "let in by the free place"
    assert await desk.end(stuck) == frozenset(), "its node is fenced"
    [first] = await desk.claim_grouped()
    assert first.id == other.id
    await desk.end(first)
    await desk.fetch("update evenbeat.pulse set is_parked = false")
    again = await desk.start(job)
    assert (again.run.beat_at, again.run.attempt) == (START, 1)


async def test_a_released_run_is_listed_as_lost_to_its_node(desk: Desk) -> None:
    jobs = [await desk.add(due()) for _ in range(2)]
    held = await desk.claim()
    await desk.jobs.release(jobs[0].uid)
    taken = {each.run.id for each in held if each.id == jobs[0].id}
    assert await leases.find_lost_leases(desk.database, held) == taken


async def test_the_place_in_the_old_group_is_freed_when_the_run_ends(desk: Desk) -> None:
    old, new = ONE_PLACE, Group("other", max_running=1)
    job, waiting = [await desk.add(due(group=old)) for _ in range(2)]
    claimed = await desk.start(job)
    await desk.edit(job, group=new)
    assert await desk.breaches() == []
    assert (await desk.look(waiting)).pulse.state is State.BLOCKED, "the old place is taken"
    permit = "select job_group.key from evenbeat.permit join evenbeat.job_group on id = group_id"
    assert await desk.value(permit) == old.key
    written = await desk.write(claimed)
    assert len(written.group_ids) == 1
    assert await desk.value("select count(*) from evenbeat.permit") == 0


@pytest.mark.parametrize("group", [None, Group("other", max_running=1)])
async def test_a_parked_job_that_changes_its_group_is_let_out(
    desk: Desk, group: Group | None
) -> None:
    first, job = [await desk.add(due(group=ONE_PLACE)) for _ in range(2)]
    await desk.start(first)
    assert (await desk.look(job)).pulse.state is State.BLOCKED
    await desk.edit(job, group=group)
    assert [each.id for each in await desk.take_all()] == [job.id]


async def test_a_job_that_leaves_its_group_frees_nothing_that_it_does_not_have(
    desk: Desk, clock: Clock
) -> None:
    job = await desk.add(due(group=ONE_PLACE))
    claimed = await desk.start(job)
    await desk.edit(job, group=None)
    await desk.end(claimed)
    await clock.advance(hours=1)
    alone = await desk.start(job)
    assert (await desk.write(alone)).group_ids == frozenset()
