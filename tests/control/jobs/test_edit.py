"""Edits: no beat is lost by one and none runs twice, whatever the job is doing meanwhile."""

from dataclasses import replace
from datetime import datetime

import pytest

from evenbeat.core.errors import Conflict, InvalidInput, NotFound
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import CatchUp, Cause, Job, RunState, State
from evenbeat.core.runs.outcome import HandedBack, Lost, Outcome
from evenbeat.store.jobs.job_inserts import new_job_uid
from tests.conftest import START
from tests.control.controlled_jobs import ANN, ControlledJobs, due
from tests.store.given import DONE, FAILED, HOUR, MINUTE
from tests.support.databases import Clock


async def beats(controlled: ControlledJobs, job: Job) -> list[tuple[datetime | None, RunState]]:
    return [(run.beat_at, run.state) for run in await controlled.history(job)]


async def work(controlled: ControlledJobs) -> None:
    while claimed := await controlled.take_all():
        await controlled.end(*claimed)


async def test_an_edit_changes_the_definition_and_counts_its_version(
    controlled: ControlledJobs,
) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    after = await controlled.edit(job, payload={"new": 1}, priority=7, labels={"a": "b"}, name="it")
    written = after.definition
    assert (written.payload, written.priority, written.labels) == ({"new": 1}, 7, {"a": "b"})
    assert (after.version, after.definition.name) == (2, "it")
    assert after.pulse == job.pulse
    assert (await controlled.find(job)) == after


async def test_the_next_run_has_the_new_definition_and_the_one_in_hand_the_old(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due(payload={"v": 1}))
    first = await controlled.start(job)
    await controlled.edit(job, payload={"v": 2})
    assert first.definition.payload == {"v": 1}
    await controlled.end(first)
    await clock.advance(hours=1)
    assert (await controlled.start(job)).definition.payload == {"v": 2}


@pytest.mark.parametrize("schedule", ["every 1h", "every 1h phase=0s", "0 * * * *"])
async def test_an_unchanged_timetable_keeps_phase_and_cursor(
    controlled: ControlledJobs, clock: Clock, schedule: str
) -> None:
    job = await controlled.add(due(schedule))
    await clock.advance(minutes=25)
    after = await controlled.edit(job, schedule=schedule, payload={"new": 1})
    assert after.definition.timetable == job.definition.timetable
    assert after.pulse.next_beat_at == job.pulse.next_beat_at
    assert await controlled.value("select plan_version from evenbeat.pulse") == 1


async def test_a_beat_that_was_still_ahead_is_planned_anew(controlled: ControlledJobs) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    after = await controlled.edit(job, schedule="every 7m")
    assert after.pulse.next_beat_at == START + 7 * MINUTE
    assert await controlled.history(job) == []


@pytest.mark.parametrize("schedule", ["every 7m", "daily 18:00", "once 2030-01-01T18:00:00Z"])
async def test_an_overdue_beat_is_kept_and_the_new_schedule_follows(
    controlled: ControlledJobs, clock: Clock, schedule: str
) -> None:
    job = await controlled.add(due("every 1h"))
    await clock.advance(minutes=30)
    after = await controlled.edit(job, schedule=schedule)
    assert after.pulse.due_at == START
    following = after.definition.timetable.next_after(clock.now)
    assert after.pulse.next_beat_at == following
    await work(controlled)
    assert await beats(controlled, job) == [(START, RunState.COMPLETED)]
    pulse = (await controlled.find(job)).pulse
    assert (pulse.due_at, pulse.state) == (
        following,
        State.PENDING if schedule.startswith("once") else State.SCHEDULED,
    )
    assert following is not None
    await clock.set_to(following)
    await work(controlled)
    assert (await beats(controlled, job))[1:] == [(following, RunState.COMPLETED)]


@pytest.mark.parametrize("catch_up", CatchUp)
async def test_missed_beats_of_the_old_schedule_are_recorded_and_none_of_the_new_one(
    controlled: ControlledJobs, clock: Clock, catch_up: CatchUp
) -> None:
    """Three hourly beats are overdue; the new schedule has beats every minute, from now on."""
    job = await controlled.add(due("every 1h", policy={"catch_up": catch_up}))
    await clock.advance(hours=2, minutes=30)
    await controlled.edit(job, schedule="every 1m")
    await work(controlled)
    [missed, run] = await controlled.history(job)
    assert (missed.state, missed.beat_at, missed.skipped_count) == (
        RunState.SKIPPED,
        START + HOUR,
        2,
    )
    assert missed.reason == "the schedule was edited before they were run"
    assert (run.beat_at, run.state, run.attempt) == (START, RunState.COMPLETED, 1)
    assert (await controlled.find(job)).pulse.next_beat_at == clock.now + MINUTE


async def test_a_retry_that_waits_keeps_its_beat_its_attempts_and_its_time(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due())
    await controlled.fail(job)
    retry_at = (await controlled.find(job)).pulse.retry_at
    after = await controlled.edit(job, schedule="every 7m")
    assert (after.pulse.retry_at, after.pulse.attempt) == (retry_at, 1)
    await clock.advance(minutes=3)
    again = await controlled.start(job)
    assert (again.run.beat_at, again.run.attempt) == (START, 2)
    await controlled.end(again)
    assert (await controlled.find(job)).pulse.next_beat_at == START + 7 * MINUTE


@pytest.mark.parametrize("outcome", [DONE, FAILED, Lost(), HandedBack()])
@pytest.mark.parametrize(
    "schedule", ["every 7m", "once 2030-01-01T18:00:00Z", "once 2030-01-01T03:00:00Z"]
)
async def test_an_edit_during_the_run_neither_loses_nor_doubles_a_beat(
    controlled: ControlledJobs, clock: Clock, schedule: str, outcome: Outcome
) -> None:
    job = await controlled.add(due("every 1h"))
    claimed = await controlled.start(job)
    await clock.advance(minutes=5)
    after = await controlled.edit(job, schedule=schedule)
    expected = after.definition.timetable.next_after(clock.now)
    assert after.pulse.next_beat_at == expected
    await controlled.end(claimed, outcome=outcome)
    assert (await controlled.find(job)).pulse.next_beat_at == expected
    assert await controlled.breaches() == []
    await clock.advance(minutes=1)
    await work(controlled)
    settled = [at for at, state in await beats(controlled, job) if state is RunState.COMPLETED]
    assert settled == [START]
    pulse = (await controlled.find(job)).pulse
    if expected is None:
        assert pulse.state is State.COMPLETED
    else:
        assert pulse.due_at == expected
        await clock.set_to(expected)
        await work(controlled)
        assert (await beats(controlled, job))[-1] == (expected, RunState.COMPLETED)


@pytest.mark.parametrize("outcome", [DONE, FAILED, Lost()])
async def test_a_one_off_job_moved_during_its_run_runs_again_at_its_new_time(
    controlled: ControlledJobs, clock: Clock, outcome: Outcome
) -> None:
    job = await controlled.add(due("now", policy={"max_attempts": 1}))
    claimed = await controlled.start(job)
    later = START + 6 * HOUR
    await controlled.edit(job, schedule="once 2030-01-01T18:00:00Z")
    await controlled.end(claimed, outcome=outcome)
    assert (await controlled.find(job)).pulse.due_at == later
    await clock.set_to(later)
    await work(controlled)
    assert (await beats(controlled, job))[-1] == (later, RunState.COMPLETED)
    assert (await controlled.find(job)).pulse.state is State.COMPLETED


async def test_the_one_beat_of_a_one_off_job_is_moved_even_if_it_is_overdue(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due("now"))
    await clock.advance(minutes=10)
    await controlled.edit(job, schedule="once 2030-01-01T18:00:00Z")
    await work(controlled)
    assert await beats(controlled, job) == []
    await clock.set_to(START + 6 * HOUR)
    await work(controlled)
    assert await beats(controlled, job) == [(START + 6 * HOUR, RunState.COMPLETED)]
    assert (await controlled.find(job)).pulse.state is State.COMPLETED


async def test_an_edit_during_a_run_by_hand_keeps_the_overdue_beat(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    await controlled.jobs.run(job.uid)
    by_hand = await controlled.start(job)
    await clock.advance(hours=1)
    await controlled.edit(job, schedule="every 7m")
    await controlled.end(by_hand)
    owed = await controlled.start(job)
    assert (owed.run.cause, owed.run.beat_at) == (Cause.RETRY, START + HOUR)
    await controlled.end(owed)
    assert (await controlled.find(job)).pulse.next_beat_at == clock.now + 7 * MINUTE


async def test_a_run_in_hand_counts_towards_the_runs_of_the_new_schedule(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due("every 1h"))
    claimed = await controlled.start(job)
    written = (await controlled.find(job)).definition
    bounds = replace(written.timetable.bounds, max_runs=1)
    await controlled.edit(job, timetable=replace(written.timetable, bounds=bounds))
    await controlled.end(claimed)
    assert (await controlled.find(job)).pulse.state is State.COMPLETED


@pytest.mark.parametrize("over", ["completed", "failed", "cancelled"])
async def test_a_finished_job_is_brought_back_by_a_retry_and_not_by_an_edit(
    controlled: ControlledJobs, clock: Clock, over: str
) -> None:
    job = await controlled.add(due("now", policy={"max_attempts": 1}))
    if over == "cancelled":
        await controlled.jobs.cancel(job.uid)
    else:
        await controlled.finish(job, DONE if over == "completed" else FAILED)
    after = await controlled.edit(job, schedule="every 1h")
    assert (after.pulse.state, after.pulse.due_at) == (over, None)
    await clock.advance(days=1)
    assert await controlled.take_all() == []
    await controlled.jobs.retry(job.uid)
    await work(controlled)
    pulse = (await controlled.find(job)).pulse
    assert pulse.state is State.SCHEDULED
    assert pulse.next_beat_at is not None
    assert clock.now < pulse.next_beat_at <= clock.now + HOUR


async def test_a_schedule_edited_during_a_retry_by_hand_is_used_after_it(
    controlled: ControlledJobs,
) -> None:
    job = await controlled.jobs.cancel((await controlled.add(due("every 1h"))).uid)
    await controlled.jobs.retry(job.uid)
    by_hand = await controlled.start(job)
    await controlled.edit(job, schedule="every 7m")
    await controlled.end(by_hand)
    assert (await controlled.find(job)).pulse.next_beat_at == START + 7 * MINUTE


async def test_the_beats_of_a_pause_are_not_owed_after_an_edit(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.jobs.pause((await controlled.add(due("every 1h"))).uid)
    await clock.advance(hours=5)
    await controlled.edit(job, schedule="every 7m")
    await controlled.jobs.resume(job.uid)
    assert await controlled.take_all() == []
    assert (await controlled.find(job)).pulse.due_at == clock.now + 7 * MINUTE


async def test_a_schedule_without_a_beat_is_refused(controlled: ControlledJobs) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    written = (await controlled.find(job)).definition
    ended = replace(written.timetable.bounds, ends_at=START - HOUR)
    with pytest.raises(InvalidInput, match="schedule: has no beat left"):
        await controlled.edit(job, timetable=replace(written.timetable, bounds=ended))
    assert await controlled.find(job) == job


async def test_an_edit_of_another_version_is_a_conflict_that_names_the_one_in_force(
    controlled: ControlledJobs,
) -> None:
    job = await controlled.add(due())
    await controlled.edit(job, payload=1)
    with pytest.raises(Conflict, match="at version 2 and not 1 any more"):
        await controlled.jobs.edit(job.uid, job.definition, version=1)
    assert (await controlled.jobs.edit(job.uid, job.definition, version=2)).version == 3


async def test_a_name_that_is_taken_is_a_conflict_and_nothing_is_changed(
    controlled: ControlledJobs,
) -> None:
    await controlled.add(due(name="taken"))
    job = await controlled.add(due(name="mine"))
    with pytest.raises(Conflict, match="a job named 'taken' already"):
        await controlled.edit(job, name="taken", payload=1)
    assert await controlled.find(job) == job
    assert await controlled.audit() == []
    assert await controlled.value("select count(*) from evenbeat.job_version") == 0


async def test_a_bad_field_is_named_and_an_unknown_job_not_found(
    controlled: ControlledJobs,
) -> None:
    job = await controlled.add(due())
    for change, field in (({"priority": 101}, "priority"), ({"kind": "dance"}, "kind")):
        with pytest.raises(InvalidInput) as refused:
            await controlled.edit(job, **change)
        assert refused.value.errors[0].field == field
    with pytest.raises(NotFound):
        await controlled.jobs.edit(new_job_uid(START), due())


async def test_another_kind_or_label_takes_the_job_to_another_lane(
    controlled: ControlledJobs,
) -> None:
    job = await controlled.add(due())
    await controlled.edit(job, kind="crawl")
    assert await controlled.claim() == []
    [claimed] = await controlled.claim(kind="crawl")
    await controlled.end(claimed)
    after = await controlled.edit(job, runs_on=("gpu",))
    assert after.definition.runs_on == ("gpu",)
    lane = "select runs_on from evenbeat.lane join evenbeat.pulse on lane.id = lane_id"
    assert await controlled.value(lane) == ["gpu"]


async def test_every_definition_is_kept_and_can_be_restored(
    controlled: ControlledJobs, clock: Clock
) -> None:
    job = await controlled.add(due(payload=1, name="one"), due_at=START + HOUR)
    await clock.advance(minutes=1)
    await controlled.edit(job, payload=2, name="two")
    await controlled.edit(job, payload=3)
    versions = await controlled.jobs.versions(job.uid)
    assert [each.number for each in versions] == [3, 2, 1]
    assert versions[2].definition == job.definition
    assert [each.replaced_by for each in versions] == [None, ANN.name, ANN.name]
    assert versions[2].replaced_at == START + MINUTE
    after = await controlled.jobs.restore(job.uid, 1)
    assert (after.definition, after.version) == (job.definition, 4)
    assert after.pulse.next_beat_at == job.pulse.next_beat_at
    with pytest.raises(NotFound, match="no version 9"):
        await controlled.jobs.restore(job.uid, 9)


@pytest.mark.breaks_rules("a definition that nobody can read")
async def test_a_job_that_cannot_be_read_is_repaired_by_an_edit_and_can_be_ended(
    controlled: ControlledJobs,
) -> None:
    job, other = await controlled.add(due()), await controlled.add(due())
    await controlled.fetch("""update evenbeat.job set timetable = '{"odd": 1}'""")
    with pytest.raises(Conflict, match="cannot be read: InvalidInput: odd"):
        await controlled.find(job)
    await controlled.jobs.act(Action.PAUSE, Filter.one(job.uid))
    with pytest.raises(Conflict, match="cannot be read: edit it first"):
        await controlled.jobs.resume(job.uid)
    after = await controlled.jobs.edit(job.uid, due())
    assert after.pulse.state is State.PAUSED
    assert (await controlled.jobs.resume(job.uid)).pulse.state is State.SCHEDULED
    with pytest.raises(Conflict, match="version 1 cannot be restored: the definition cannot be"):
        await controlled.jobs.restore(job.uid, 1)
    await controlled.jobs.delete(other.uid)


async def test_an_edit_and_a_switch_are_one_transaction_with_one_version(
    controlled: ControlledJobs,
) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    to = replace(job.definition, priority=9)
    after = await controlled.jobs.edit(job.uid, to, switch=Action.DISABLE, by=ANN)
    assert (after.definition.priority, after.pulse.state) == (9, State.DISABLED)
    assert after.version == 2
    newest, before = await controlled.audit(actor=ANN.name)
    assert [before.action, newest.action] == ["edit", "disable"]


async def test_a_switch_that_is_refused_takes_the_edit_back(controlled: ControlledJobs) -> None:
    job = await controlled.add(due(), due_at=START + HOUR)
    await controlled.jobs.cancel(job.uid)
    before = await controlled.find(job)
    to = replace(job.definition, priority=9)
    for dry_run in (True, False):
        with pytest.raises(Conflict, match="cannot disable a job that is cancelled"):
            await controlled.jobs.edit(job.uid, to, switch=Action.DISABLE, by=ANN, dry_run=dry_run)
    assert await controlled.find(job) == before
    assert await controlled.audit(actor=ANN.name) == []
    assert len(await controlled.jobs.versions(job.uid)) == 1


async def test_only_enable_and_disable_go_with_an_edit(controlled: ControlledJobs) -> None:
    job = await controlled.add(due())
    with pytest.raises(InvalidInput, match="switch: must be enable or disable"):
        await controlled.jobs.edit(job.uid, job.definition, switch=Action.DELETE)
