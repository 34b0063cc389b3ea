"""Cancelling a job that runs: its node hears of it and stops it, once."""

import asyncio

from evenbeat.core.jobs.model import ErrorClass, RunState, State
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done
from tests.engine.node_runner import Does, Gate, Workshop
from tests.support.databases import Clock


async def test_a_cancelled_run_is_stopped_and_nothing_follows_from_it(
    workshop: Workshop, clock: Clock
) -> None:
    gate = Gate()
    async with workshop.node(Does(gate), Does(Done(), kind="witness")):
        job = await workshop.add("every 30m")
        await clock.advance(minutes=30)
        await gate.reached.wait()
        assert (await workshop.cancel(job)).pulse.state is State.RUNNING
        run = await workshop.closed(job)
        await clock.advance(days=1)
        await workshop.closed(await workshop.add(kind="witness"))
    assert gate.tidied == [1], "a handler may tidy up"
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.CANCELLED)
    assert run.reason == "cancelled by hand"
    pulse = (await workshop.look(job)).pulse
    assert (pulse.state, pulse.due_at, pulse.next_beat_at) == (State.CANCELLED, None, None)
    assert len(await workshop.runs(job)) == 1
    assert await workshop.value("select count(*) from evenbeat.dead_letter") == 0


async def test_a_stopped_run_tidies_up_in_peace(workshop: Workshop) -> None:
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

    async with workshop.node(Does(act), Does(gate, kind="other")):
        slow, other = await workshop.add(), await workshop.add(kind="other")
        await workshop.started(slow)
        await gate.reached.wait()
        await workshop.cancel(slow)
        await tidying.wait()
        # That the other one is stopped shows that the node has looked again.
        await workshop.cancel(other)
        await workshop.closed(other)
        assert (await workshop.look(slow)).pulse.state is State.RUNNING
        may_end.set()
        assert (await workshop.closed(slow)).state is RunState.CANCELLED
    assert tidied.is_set()


async def test_a_parked_or_waiting_job_is_never_started_once_it_is_cancelled(
    workshop: Workshop, clock: Clock
) -> None:
    job = await workshop.add("once 2030-01-01T13:00:00Z")
    assert (await workshop.cancel(job)).pulse.state is State.CANCELLED
    async with workshop.node(Does(Done())):
        await clock.advance(days=1)
        await workshop.closed(await workshop.add())
    assert await workshop.runs(job) == []
