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
from tests.engine.node_runner import Does, Gate, Workshop
from tests.support.databases import Clock
from tests.support.waiting import eventually


@pytest.fixture
def jobs(workshop: Workshop) -> Jobs:
    return Jobs(workshop.database, Registry())


async def test_a_run_asked_for_by_hand_starts_without_waiting_for_the_next_check(
    workshop: Workshop, jobs: Jobs
) -> None:
    job = await workshop.add("every 1h")
    async with workshop.node(Does(Done())):
        await jobs.run(job.uid)
        assert (await workshop.closed(job)).state is RunState.COMPLETED


async def test_a_job_paused_while_running_finishes_and_then_stays_paused(
    workshop: Workshop, jobs: Jobs, clock: Clock
) -> None:
    gate = Gate()
    async with workshop.node(Does(gate)):
        job = await workshop.add("every 1m")
        await clock.advance(minutes=1)
        await gate.reached.wait()
        await jobs.pause(job.uid)
        gate.open.set()
        assert (await workshop.closed(job)).state is RunState.COMPLETED
        await clock.advance(days=1)
        await workshop.closed(await workshop.add())
    assert (await workshop.look(job)).pulse.state is State.PAUSED
    assert len(await workshop.runs(job)) == 1


async def test_a_deleted_job_is_stopped_where_it_runs(workshop: Workshop, jobs: Jobs) -> None:
    gate = Gate()
    async with workshop.node(Does(gate)):
        job = await workshop.add()
        await gate.reached.wait()
        await jobs.delete(job.uid)
        run = await workshop.closed(job)
    assert (run.state, gate.tidied) == (RunState.CANCELLED, [1])


async def test_the_handler_of_a_released_run_is_stopped_by_its_node(
    workshop: Workshop, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_watch, "LONG", run_watch.LONG * 0)
    gate = Gate()
    async with workshop.node(Does(gate)):
        job = await workshop.add()
        await gate.reached.wait()
        await jobs.release(job.uid)
        await eventually(lambda: gate.tidied == [1], "the old handler is stopped")
        gate.open.set()
        again = await workshop.closed(job, 2)
    first, _ = await workshop.runs(job)
    assert (first.error_class, first.reason) == (ErrorClass.HANDED_BACK, "released by python")
    assert (again.state, again.attempt) == (RunState.COMPLETED, 1)


async def test_a_node_held_back_by_maintenance_is_woken_when_it_is_switched_off(
    workshop: Workshop,
) -> None:
    switch = MaintenanceSwitch(workshop.database)
    await switch.on("new disks")
    async with workshop.node(Does(Done()), check_interval=timedelta(hours=1)):
        job = await workshop.add()
        since = await workshop.value("select clock_timestamp()")
        await clocks.wake(workshop.database)
        await eventually(lambda: has_looked(workshop, since), "the node looks for due jobs")
        assert await workshop.runs(job) == []
        await switch.off()
        await workshop.closed(job)


async def has_looked(workshop: Workshop, since: datetime) -> int:
    """Whether a node has asked, since then, how long it may wait."""
    query = """
        select count(*) from pg_stat_activity
        where state = 'idle' and query_start > $1 and query like '%ungrouped_in%lane_count%'
    """
    return await workshop.value(query, since)
