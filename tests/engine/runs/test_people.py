"""What people do to jobs while nodes work: heard of at once, and obeyed."""

from datetime import datetime, timedelta

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.control.ops.maintenance import MaintenanceSwitch
from evenbeat.core.jobs.model import ErrorClass, RunState, State
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.engine.runs import run_watch
from evenbeat.store.database import clock as clocks
from tests.engine.node_runner import Does, Gate, NodeRunner
from tests.support.databases import Clock
from tests.support.waiting import eventually


@pytest.fixture
def jobs(node_runner: NodeRunner) -> Jobs:
    return Jobs(node_runner.database, Registry())


async def test_a_run_asked_for_by_hand_starts_without_waiting_for_the_next_check(
    node_runner: NodeRunner, jobs: Jobs
) -> None:
    job = await node_runner.add("every 1h")
    async with node_runner.node(Does(Done())):
        await jobs.run(job.uid)
        assert (await node_runner.closed(job)).state is RunState.COMPLETED


async def test_a_job_paused_while_running_finishes_and_then_stays_paused(
    node_runner: NodeRunner, jobs: Jobs, clock: Clock
) -> None:
    gate = Gate()
    async with node_runner.node(Does(gate)):
        job = await node_runner.add("every 1m")
        await clock.advance(minutes=1)
        await gate.reached.wait()
        await jobs.pause(job.uid)
        gate.open.set()
        assert (await node_runner.closed(job)).state is RunState.COMPLETED
        await clock.advance(days=1)
        await node_runner.closed(await node_runner.add())
    assert (await node_runner.find(job)).pulse.state is State.PAUSED
    assert len(await node_runner.runs(job)) == 1


async def test_a_deleted_job_is_stopped_where_it_runs(node_runner: NodeRunner, jobs: Jobs) -> None:
    gate = Gate()
    async with node_runner.node(Does(gate)):
        job = await node_runner.add()
        await gate.reached.wait()
        await jobs.delete(job.uid)
        run = await node_runner.closed(job)
    assert (run.state, gate.tidied) == (RunState.CANCELLED, [1])


async def test_the_handler_of_a_released_run_is_stopped_by_its_node(
    node_runner: NodeRunner, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_watch, "LONG", run_watch.LONG * 0)
    gate = Gate()
    async with node_runner.node(Does(gate)):
        job = await node_runner.add()
        await gate.reached.wait()
        await jobs.release(job.uid)
        await eventually(lambda: gate.tidied == [1], "the old handler is stopped")
        gate.open.set()
        again = await node_runner.closed(job, 2)
    first, _ = await node_runner.runs(job)
    assert (first.error_class, first.reason) == (ErrorClass.HANDED_BACK, "released by python")
    assert (again.state, again.attempt) == (RunState.COMPLETED, 1)


async def test_a_node_held_back_by_maintenance_is_woken_when_it_is_switched_off(
    node_runner: NodeRunner,
) -> None:
    switch = MaintenanceSwitch(node_runner.database)
    await switch.on("new disks")
    async with node_runner.node(Does(Done()), check_interval=timedelta(hours=1)):
        job = await node_runner.add()
        since = await node_runner.value("select clock_timestamp()")
        await clocks.wake(node_runner.database)
        await eventually(lambda: has_looked(node_runner, since), "the node looks for due jobs")
        assert await node_runner.runs(job) == []
        await switch.off()
        await node_runner.closed(job)


async def has_looked(node_runner: NodeRunner, since: datetime) -> int:
    """Whether a node has asked, since then, how long it may wait."""
    query = """
        select count(*) from pg_stat_activity
        where state = 'idle' and query_start > $1 and query like '%ungrouped_in%lane_count%'
    """
    return await node_runner.value(query, since)
