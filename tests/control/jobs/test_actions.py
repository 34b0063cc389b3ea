"""What each action promises besides the state that it leads to."""

from dataclasses import replace

import pytest

from evenbeat.core.errors import IllegalTransition, NotFound
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Cause, ErrorClass, RunState, State
from evenbeat.core.runs.outcome import Outcome
from evenbeat.core.time.timetable import TimetableBounds
from evenbeat.store.jobs.job_inserts import new_job_uid
from evenbeat.store.runs import leases
from tests.conftest import START
from tests.control.controlled_jobs import ANN, ONE_PLACE, ControlledJobs, due
from tests.store.given import DONE, FAILED, HOUR
from tests.support.databases import Clock


async def test_an_unknown_job_is_not_found(controlled: ControlledJobs) -> None:
    nobody = new_job_uid(START)
    for act in (
        controlled.jobs.pause,
        controlled.jobs.run,
        controlled.jobs.delete,
        controlled.jobs.versions,
    ):
        with pytest.raises(NotFound, match=str(nobody)):
            await act(nobody)


async def test_run_now_moves_neither_the_schedule_nor_a_pause(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due(), due_at=START + HOUR)).uid)
    await controlled.jobs.run(job.uid)
    claimed = await controlled.start(job)
    assert (claimed.run.cause, claimed.run.attempt) == (Cause.MANUAL, 1)
    with pytest.raises(IllegalTransition, match="cannot run a job that is running"):
        await controlled.jobs.run(job.uid)
    await controlled.end(claimed)
    pulse = (await controlled.find(job)).pulse
    assert (pulse.state, pulse.next_beat_at, pulse.due_at) == (State.PAUSED, START + HOUR, None)
    assert await controlled.take_all() == []


async def test_run_now_brings_a_retry_that_waits_forward(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due())
    await controlled.fail(job)
    await clock.advance(seconds=1)
    await controlled.jobs.run(job.uid)
    claimed = await controlled.start(job)
    assert (claimed.run.cause, claimed.run.beat_at, claimed.run.attempt) == (
        Cause.RETRY,
        START,
        2,
    )
    await controlled.end(claimed)
    assert await controlled.take_all() == [], "one run, not one beside it"


async def test_asked_twice_it_runs_once(controlled: ControlledJobs) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    await controlled.jobs.run(job.uid)
    await controlled.jobs.run(job.uid)
    await controlled.finish(job)
    assert await controlled.take_all() == []


async def test_a_run_by_hand_that_waits_does_not_outlive_a_pause(
    controlled: ControlledJobs,
) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    await controlled.jobs.run(job.uid)
    await controlled.jobs.pause(job.uid)
    assert await controlled.take_all() == []


async def test_a_one_off_job_paused_before_its_retry_by_hand_is_still_owed_it(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due("now"))
    await controlled.finish(job)
    await clock.advance(minutes=1)
    await controlled.jobs.retry(job.uid)
    await controlled.jobs.pause(job.uid)
    assert await controlled.take_all() == []
    await controlled.jobs.resume(job.uid)
    await controlled.finish(job)
    assert (await controlled.find(job)).pulse.state is State.COMPLETED


async def test_the_beats_of_a_pause_are_passed_over_in_the_rhythm_of_the_job(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=5, minutes=20)
    after = await controlled.jobs.resume(job.uid)
    assert after.pulse.due_at == START + 6 * HOUR


async def test_a_paused_one_off_job_is_still_owed_its_beat(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due("now"))).uid)
    await clock.advance(days=1)
    assert (await controlled.jobs.resume(job.uid)).pulse.due_at == START


async def test_a_job_whose_schedule_ended_during_its_pause_is_completed(
    controlled: ControlledJobs, clock: Clock
) -> None:
    ending = replace(due().timetable, bounds=TimetableBounds(ends_at=START + 2 * HOUR))
    job = await controlled.jobs.pause((await controlled.add(replace(due(), timetable=ending))).uid)
    await clock.advance(hours=3)
    assert (await controlled.jobs.resume(job.uid)).pulse.state is State.COMPLETED


@pytest.mark.parametrize("outcome", [DONE, FAILED])
@pytest.mark.parametrize("schedule", ["now", "every 1h"])
async def test_a_job_that_ends_with_its_run_is_not_paused_after_it(
    controlled: ControlledJobs, schedule: str, outcome: Outcome
) -> None:
    job = await controlled.add(due(schedule, policy={"max_attempts": 1}))
    claimed = await controlled.start(job)
    await controlled.jobs.pause(job.uid)
    await controlled.end(claimed, outcome=outcome)
    over = State.COMPLETED if outcome is DONE else State.FAILED
    state = (await controlled.find(job)).pulse.state
    assert state is (over if schedule == "now" else State.PAUSED)


async def test_a_pause_that_is_taken_back_during_the_run_leaves_no_trace(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due())
    claimed = await controlled.start(job)
    assert (await controlled.jobs.pause(job.uid)).pulse.wanted is State.PAUSED
    assert (await controlled.jobs.resume(job.uid)).pulse.wanted is None
    await controlled.end(claimed)
    pulse = (await controlled.find(job)).pulse
    assert (pulse.state, pulse.due_at) == (State.SCHEDULED, START + HOUR)


async def test_a_paused_job_resumed_during_its_run_by_hand_goes_on_with_its_schedule(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due())).uid)
    await clock.advance(hours=3, minutes=10)
    await controlled.jobs.run(job.uid)
    claimed = await controlled.start(job)
    await controlled.jobs.resume(job.uid)
    await controlled.end(claimed)
    pulse = (await controlled.find(job)).pulse
    assert (pulse.state, pulse.due_at) == (State.SCHEDULED, START + 4 * HOUR)


async def test_a_retry_by_hand_counts_its_attempts_anew_and_clears_the_failure(
    controlled: ControlledJobs,
) -> None:
    job = await controlled.add(due(policy={"max_attempts": 1}))
    await controlled.fail(job)
    assert (await controlled.find(job)).pulse.state is State.FAILED
    await controlled.jobs.retry(job.uid)
    claimed = await controlled.start(job)
    assert (claimed.run.cause, claimed.run.attempt) == (Cause.MANUAL, 1)
    await controlled.end(claimed)
    pulse = (await controlled.find(job)).pulse
    assert (pulse.state, pulse.next_beat_at) == (State.SCHEDULED, START + HOUR)


async def test_a_deleted_job_is_gone_its_name_is_free_and_its_history_stays(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due(name="nightly"))
    await controlled.finish(job)
    await controlled.jobs.delete(job.uid, by=ANN)
    with pytest.raises(NotFound):
        await controlled.jobs.get(job.uid)
    with pytest.raises(NotFound):
        await controlled.jobs.delete(job.uid)
    assert (await controlled.jobs.get(job.uid, with_deleted=True)).definition.name == "nightly"
    assert [run.state for run in await controlled.history(job)] == [RunState.COMPLETED]
    assert [entry.action for entry in await controlled.audit(job=job.uid)] == ["delete"]
    again = await controlled.add(due("every 9h", name="nightly"), due_at=START + 9 * HOUR)
    await clock.advance(hours=5)
    assert await controlled.take_all() == []
    assert (await controlled.find(again)).pulse.state is State.SCHEDULED


@pytest.mark.parametrize("outcome", [DONE, FAILED])
async def test_a_running_job_that_is_deleted_is_stopped_by_its_node(
    controlled: ControlledJobs, clock: Clock, outcome: Outcome
) -> None:
    job = await controlled.add(due(group=ONE_PLACE))
    claimed = await controlled.start(job)
    await controlled.jobs.delete(job.uid)
    assert await leases.find_unwanted_runs(controlled.database, controlled.node_id) == {
        claimed.run.id
    }
    await controlled.end(claimed, outcome=outcome)
    assert len(await controlled.history(job)) == 1
    assert await controlled.value("select count(*) from evenbeat.permit") == 0
    await clock.advance(days=1)
    assert await controlled.take_all() == []


async def test_a_released_run_is_due_again_at_once_and_was_no_attempt(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job, other = [await controlled.add(due(group=ONE_PLACE)) for _ in range(2)]
    stuck = await controlled.start(job)
    await clock.advance(minutes=1)
    after = await controlled.jobs.release(job.uid, by=ANN)
    assert after.pulse.due_at == clock.now
    [run] = await controlled.history(job)
    assert (run.state, run.error_class, run.reason) == (
        RunState.CANCELLED,
        ErrorClass.HANDED_BACK,
        "released by ann",
    )
    assert (await controlled.find(other)).pulse.state is State.SCHEDULED, "let in by the free place"
    assert await controlled.end(stuck) == frozenset(), "its node is fenced"
    [first] = await controlled.claim_grouped()
    assert first.id == other.id
    await controlled.end(first)
    await controlled.fetch("update evenbeat.pulse set is_parked = false")
    again = await controlled.start(job)
    assert (again.run.beat_at, again.run.attempt) == (START, 1)


async def test_a_released_run_is_listed_as_lost_to_its_node(controlled: ControlledJobs) -> None:
    jobs = [await controlled.add(due()) for _ in range(2)]
    held = await controlled.claim()
    await controlled.jobs.release(jobs[0].uid)
    taken = {each.run.id for each in held if each.id == jobs[0].id}
    assert await leases.find_lost_leases(controlled.database, held) == taken


async def test_the_place_in_the_old_group_is_freed_when_the_run_ends(
    controlled: ControlledJobs,
) -> None:
    old, new = ONE_PLACE, Group("other", max_running=1)
    job, waiting = [await controlled.add(due(group=old)) for _ in range(2)]
    claimed = await controlled.start(job)
    await controlled.edit(job, group=new)
    assert await controlled.breaches() == []
    assert (await controlled.find(waiting)).pulse.state is State.BLOCKED, "the old place is taken"
    permit = "select job_group.key from evenbeat.permit join evenbeat.job_group on id = group_id"
    assert await controlled.value(permit) == old.key
    written = await controlled.write(claimed)
    assert len(written.group_ids) == 1
    assert await controlled.value("select count(*) from evenbeat.permit") == 0


@pytest.mark.parametrize("group", [None, Group("other", max_running=1)])
async def test_a_parked_job_that_changes_its_group_is_let_out(
    controlled: ControlledJobs, group: Group | None
) -> None:
    first, job = [await controlled.add(due(group=ONE_PLACE)) for _ in range(2)]
    await controlled.start(first)
    assert (await controlled.find(job)).pulse.state is State.BLOCKED
    await controlled.edit(job, group=group)
    assert [each.id for each in await controlled.take_all()] == [job.id]


async def test_a_job_that_leaves_its_group_frees_nothing_that_it_does_not_have(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due(group=ONE_PLACE))
    claimed = await controlled.start(job)
    await controlled.edit(job, group=None)
    await controlled.end(claimed)
    await clock.advance(hours=1)
    alone = await controlled.start(job)
    assert (await controlled.write(alone)).group_ids == frozenset()
