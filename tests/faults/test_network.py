"""The network between Evenbeat and PostgreSQL is cut, half cut, or loses an answer."""

import asyncio
import time
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.jobs.model import RunState
from evenbeat.core.runs.outcome import Done
from evenbeat.observe import log
from evenbeat.store.database import clock as clocks
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes
from tests.engine.node_runner import Does, Gate, NodeRunner
from tests.support.databases import Clock
from tests.support.network import Network
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("rules")

LIMIT = 5.0


async def test_over_a_cut_network_every_query_fails_within_five_seconds_and_works_when_it_heals(
    wire: Network, far: Database
) -> None:
    # More than there are connections: waiting for one must end as well.
    async def ask() -> float:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await clocks.now(far)
        return time.monotonic() - began

    async def write() -> float:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            async with far.transaction() as session:
                await nodes.open_lanes(session, ["never"])
        return time.monotonic() - began

    await asyncio.gather(*(clocks.now(far) for _ in range(3)))
    wire.cut()
    took = await asyncio.gather(*(ask() for _ in range(10)), write())
    print(f"\ncut network: the slowest of {len(took)} queries failed after {max(took):.2f} s")
    # The machine may be busy with something else; one wait after another would take twice as long.
    assert max(took) < 2 * LIMIT
    wire.heal()
    await clocks.now(far)


async def test_what_one_connection_has_found_out_spares_the_others_the_wait(
    wire: Network, far: Database
) -> None:
    await asyncio.gather(*(clocks.now(far) for _ in range(5)))
    wire.forget()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await clocks.now(far)
    assert wire.unheard == 1
    await asyncio.gather(*(clocks.now(far) for _ in range(20)))
    assert wire.unheard == 1, "a connection from before was used again"


async def test_a_node_goes_on_by_itself_when_the_network_heals(
    wire: Network, node_runner: NodeRunner, far_node_runner: NodeRunner
) -> None:
    async with far_node_runner.node(Does(Done())):
        await node_runner.closed(await node_runner.add())
        wire.cut()
        waiting = [await node_runner.add() for _ in range(5)]
        wire.hang_up()
        await asyncio.sleep(0.5)
        assert [await node_runner.runs(job) for job in waiting] == [[]] * 5
        wire.heal()
        for job in waiting:
            assert (await node_runner.closed(job)).state is RunState.COMPLETED


async def test_the_end_of_a_run_whose_answer_was_lost_is_found_and_not_called_fenced(
    wire: Network, node_runner: NodeRunner, far_node_runner: NodeRunner
) -> None:
    with capture_logs() as lines:
        async with far_node_runner.node(Does(Done(result="an answer to be lost"))):
            wire.loses = b"an answer to be lost"
            job = await node_runner.add()
            closed = await node_runner.closed(job)
            assert log.JOB_COMPLETED not in events(lines)
            wire.hang_up()
            await eventually(lambda: log.JOB_COMPLETED in events(lines), "the end of the run")
    assert closed.state is RunState.COMPLETED
    assert log.RUN_FENCED not in events(lines)
    assert len(await node_runner.runs(job)) == 1


async def test_a_run_that_was_taken_over_meanwhile_is_called_fenced(
    wire: Network, node_runner: NodeRunner, far_node_runner: NodeRunner
) -> None:
    gate = Gate()
    with capture_logs() as lines:
        async with far_node_runner.node(Does(gate)):
            job = await node_runner.add()
            await gate.reached.wait()
            wire.cut()
            gate.open.set()
            await node_runner.fetch("update evenbeat.node set alive_until = joined_at")
            async with node_runner.node(Does(Done(result="taken over"))):
                taken_over = await node_runner.closed(job, 2)
            wire.hang_up()
            wire.heal()
            await eventually(lambda: log.RUN_FENCED in events(lines), "that it is fenced")
    assert taken_over.result == "taken over"
    assert [run.state for run in await node_runner.runs(job)] == [
        RunState.FAILED,
        RunState.COMPLETED,
    ]


async def test_a_claim_whose_answer_was_lost_is_handed_back_and_run_again(
    wire: Network, node_runner: NodeRunner, far_node_runner: NodeRunner, clock: Clock
) -> None:
    async with far_node_runner.node(Does(Done())):
        job = await node_runner.add(f"once {(clock.now + timedelta(hours=1)).isoformat()}")
        # Its id, as the first column of a row, and the length of the next one.
        wire.loses = (8).to_bytes(4) + job.id.to_bytes(8) + (4).to_bytes(4)
        await clock.advance(hours=1)
        await node_runner.started(job)
        assert wire.loses is None
        wire.hang_up()
        again = await node_runner.closed(job, 2)
    first, _ = await node_runner.runs(job)
    assert (first.state, first.reason) == (RunState.CANCELLED, "the answer to the claim was lost")
    assert (again.state, again.attempt) == (RunState.COMPLETED, 1)


def events(lines: list[dict[str, object]]) -> list[object]:
    return [line["event"] for line in lines]
