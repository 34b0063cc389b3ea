"""Somebody's open transaction holds the row of one job: the others go on."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from evenbeat.core.jobs.model import RunState
from evenbeat.core.runs.outcome import Done
from evenbeat.store.database.pool import Database
from tests.engine.node_runner import Does, Gate, NodeRunner

pytestmark = pytest.mark.usefixtures("rules")
HOLD = "select id from evenbeat.pulse where id = $1 for update"


@pytest.fixture
async def stranger(database: Database) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database.url)
    yield connection
    await connection.close()


async def test_a_due_job_that_is_held_waits_alone(node_runner: NodeRunner, stranger: Any) -> None:
    held, *others = [await node_runner.add() for _ in range(20)]
    async with stranger.transaction():
        await stranger.execute(HOLD, held.id)
        async with node_runner.node(Does(Done())):
            for job in others:
                assert (await node_runner.closed(job)).state is RunState.COMPLETED
            assert await node_runner.runs(held) == []
    async with node_runner.node(Does(Done())):
        assert (await node_runner.closed(held)).state is RunState.COMPLETED


async def test_a_run_whose_job_is_held_when_it_ends_keeps_no_other_end_from_being_written(
    node_runner: NodeRunner, stranger: Any
) -> None:
    gate = Gate()
    held = await node_runner.add(kind="gated")
    async with node_runner.node(Does(gate, "gated"), Does(Done())):
        await gate.reached.wait()
        async with stranger.transaction():
            await stranger.execute(HOLD, held.id)
            gate.open.set()
            others = [await node_runner.add() for _ in range(20)]
            for job in others:
                assert (await node_runner.closed(job)).state is RunState.COMPLETED
            # And once more, now that it is known to be held.
            assert (await node_runner.closed(await node_runner.add())).state is RunState.COMPLETED
            assert [run.state for run in await node_runner.runs(held)] == [RunState.RUNNING]
        assert (await node_runner.closed(held)).state is RunState.COMPLETED


async def test_a_node_that_dies_with_a_held_job_is_reaped_of_the_others(
    node_runner: NodeRunner, stranger: Any
) -> None:
    held, other = [await node_runner.add() for _ in range(2)]
    gate, holding = Gate(), stranger.transaction()
    async with node_runner.node(Does(gate)):
        for job in (held, other):
            await node_runner.started(job)
        await holding.start()
        await stranger.execute(HOLD, held.id)
        await node_runner.fetch("update evenbeat.node set alive_until = joined_at")
        async with node_runner.node(Does(Done())):
            assert (await node_runner.closed(other, 2)).state is RunState.COMPLETED
            assert [run.state for run in await node_runner.runs(held)] == [RunState.RUNNING]
            await holding.rollback()
            assert (await node_runner.closed(held, 2)).state is RunState.COMPLETED
        gate.open.set()
