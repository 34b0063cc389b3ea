"""When jobs run: at their beat, not before, and in step for ever."""

from datetime import timedelta

from evenbeat.core.jobs.model import Cause, RunState, State
from evenbeat.core.runs.outcome import Done
from tests.conftest import START
from tests.engine.node_runner import Does, NodeRunner
from tests.support.databases import Clock

WORKS = Does(Done())
HALF_HOUR = timedelta(minutes=30)


async def test_a_one_off_job_runs_at_its_instant_and_not_before(
    node_runner: NodeRunner, clock: Clock
) -> None:
    job = await node_runner.add("once 2030-01-01T13:00:00Z")
    async with node_runner.node(WORKS):
        await clock.advance(minutes=59, seconds=59)
        witness = await node_runner.add()
        await node_runner.closed(witness)
        assert await node_runner.runs(job) == [], "the node has looked, and left it alone"
        await clock.advance(seconds=1)
        run = await node_runner.closed(job)
    assert (run.state, run.cause, run.beat_at) == (RunState.COMPLETED, Cause.SCHEDULE, clock.now)
    assert run.started_at == clock.now
    assert (await node_runner.find(job)).pulse.state is State.COMPLETED


async def test_an_interval_keeps_its_phase_over_ten_beats_however_late_each_run_is(
    node_runner: NodeRunner, clock: Clock
) -> None:
    job = await node_runner.add("every 30m")
    async with node_runner.node(WORKS):
        for beat in range(1, 11):
            await clock.set_to(START + beat * HALF_HOUR + timedelta(seconds=beat))
            await node_runner.closed(job, beat)
    runs = await node_runner.runs(job)
    assert [run.beat_at for run in runs] == [START + beat * HALF_HOUR for beat in range(1, 11)]
    assert {run.state for run in runs} == {RunState.COMPLETED}
    assert (await node_runner.find(job)).pulse.next_beat_at == START + 11 * HALF_HOUR


async def test_after_a_day_without_nodes_there_is_one_run_and_the_rhythm_goes_on(
    node_runner: NodeRunner, clock: Clock
) -> None:
    job = await node_runner.add("every 30m")
    async with node_runner.node(WORKS):
        await clock.set_to(START + HALF_HOUR)
        await node_runner.closed(job)
    await clock.advance(days=1, minutes=7)
    async with node_runner.node(WORKS):
        made_up = await node_runner.closed(job, 2)
        missed = await node_runner.closed(job, 3)
        next_beat = START + timedelta(days=1, hours=1)
        assert (await node_runner.find(job)).pulse.next_beat_at == next_beat
        await clock.set_to(next_beat)
        after = await node_runner.closed(job, 4)
    assert (made_up.cause, made_up.beat_at) == (Cause.CATCHUP, START + 2 * HALF_HOUR)
    assert (missed.state, missed.skipped_count) == (RunState.SKIPPED, 47)
    assert missed.skipped_until == START + timedelta(days=1) + HALF_HOUR
    assert (after.cause, after.beat_at, after.state) == (
        Cause.SCHEDULE,
        next_beat,
        RunState.COMPLETED,
    )


async def test_a_beat_behind_its_start_deadline_is_skipped_and_never_handled(
    node_runner: NodeRunner, clock: Clock
) -> None:
    handled: list[int] = []
    job = await node_runner.add("every 30m", policy={"start_deadline": timedelta(minutes=5)})
    await clock.advance(minutes=36)
    async with node_runner.node(Does(lambda context: handled.append(context.number) or Done())):
        run = await node_runner.closed(job)
    assert (run.state, handled) == (RunState.SKIPPED, [])
    assert "start_deadline" in (run.reason or "")


async def test_a_job_with_max_runs_ends_after_its_last_run(
    node_runner: NodeRunner, clock: Clock
) -> None:
    job = await node_runner.add("every 30m")
    await node_runner.fetch(
        """update evenbeat.job set timetable = timetable || '{"max_runs": 2}'"""
    )
    async with node_runner.node(WORKS):
        for number in (1, 2):
            await clock.advance(minutes=30)
            await node_runner.closed(job, number)
    pulse = (await node_runner.find(job)).pulse
    assert (pulse.state, pulse.due_at) == (State.COMPLETED, None)
