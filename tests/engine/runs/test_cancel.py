"""Cancelling a job that runs: its node hears of it and stops it, once."""

import asyncio

from evenbeat.core.jobs.model import ErrorClass, RunState, State
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done
from tests.engine.node_runner import Does, Gate, NodeRunner
from tests.support.databases import Clock


async def test_a_cancelled_run_is_stopped_and_nothing_follows_from_it(
    node_runner: NodeRunner, clock: Clock
) -> None:
    gate = Gate()
    async with node_runner.node(Does(gate), Does(Done(), kind="witness")):
        job = await node_runner.add("every 30m")
        await clock.advance(minutes=30)
        await gate.reached.wait()
        assert (await node_runner.cancel(job)).pulse.state is State.RUNNING
        run = await node_runner.closed(job)
        await clock.advance(days=1)
        await node_runner.closed(await node_runner.add(kind="witness"))
    assert gate.tidied == [1], "a handler may tidy up"
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.CANCELLED)
    assert run.reason == "cancelled by hand"
    pulse = (await node_runner.find(job)).pulse
    assert (pulse.state, pulse.due_at, pulse.next_beat_at) == (State.CANCELLED, None, None)
    assert len(await node_runner.runs(job)) == 1
    assert await node_runner.value("select count(*) from evenbeat.dead_letter") == 0


async def test_a_stopped_run_tidies_up_in_peace(node_runner: NodeRunner) -> None:
    tidying, may_end, tidied = asyncio.Event(), asyncio.Event(), asyncio.Event()
    gate = Gate()

    async def act(context: RunContext) -> Done:
        try:
            await asyncio.Event().wait()
        finally:
            tidying.set()
            await may_end.wait()
            tidied.set()
        return Done()

    async with node_runner.node(Does(act), Does(gate, kind="other")):
        slow, other = await node_runner.add(), await node_runner.add(kind="other")
        await node_runner.started(slow)
        await gate.reached.wait()
        await node_runner.cancel(slow)
        await tidying.wait()
        # That the other one is stopped shows that the node has looked again.
        await node_runner.cancel(other)
        await node_runner.closed(other)
        assert (await node_runner.find(slow)).pulse.state is State.RUNNING
        may_end.set()
        assert (await node_runner.closed(slow)).state is RunState.CANCELLED
    assert tidied.is_set()


async def test_a_parked_or_waiting_job_is_never_started_once_it_is_cancelled(
    node_runner: NodeRunner, clock: Clock
) -> None:
    job = await node_runner.add("once 2030-01-01T13:00:00Z")
    assert (await node_runner.cancel(job)).pulse.state is State.CANCELLED
    async with node_runner.node(Does(Done())):
        await clock.advance(days=1)
        await node_runner.closed(await node_runner.add())
    assert await node_runner.runs(job) == []
