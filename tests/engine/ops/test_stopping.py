"""A node that is told to stop drains, hands back what it cannot finish, and leaves nothing."""

import secrets
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.core.jobs.model import Cause, ErrorClass, Job, RunState
from evenbeat.core.runs.outcome import Done
from evenbeat.store.jobs.jobs import DefinitionCache
from evenbeat.store.runs import leases
from tests.engine.node_runner import Does, Gate, NodeRunner
from tests.support.databases import Clock
from tests.support.waiting import eventually

NO_TIME = timedelta(0)
# End the connection of a claim that waits for the lock on its node's row.
CUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database()
      and wait_event_type = 'Lock' and query like '%update evenbeat.pulse%'
"""


async def behind_its_back(node_runner: NodeRunner, *, due: Job) -> None:
    """Claim for the living node what it never hears of, as when the answer is lost."""
    [[node_id, lane_id]] = await node_runner.fetch(
        "select node.id, lane.id from evenbeat.node, evenbeat.lane "
        "where node.dead_at is null and lane.kind = 'other'"
    )
    claimed = await leases.claim_due(
        node_runner.database,
        node_id,
        token=secrets.randbits(62),
        places={lane_id: 1},
        definitions=DefinitionCache(),
    )
    assert [each.id for each in claimed] == [due.id]


async def test_a_stopping_node_lets_its_runs_finish(node_runner: NodeRunner) -> None:
    gate = Gate()
    async with node_runner.node(Does(gate)) as stopping:
        job = await node_runner.add()
        await gate.reached.wait()
        stopping.set()
        late = await node_runner.add()
        gate.open.set()
        run = await node_runner.closed(job)
    assert (run.state, run.result) == (RunState.COMPLETED, "let through")
    assert await node_runner.runs(late) == [], "a stopping node takes nothing new"


async def test_what_outlasts_the_drain_is_handed_back_as_the_same_attempt(
    node_runner: NodeRunner,
) -> None:
    gate = Gate()
    async with node_runner.node(Does(gate), drain_timeout=NO_TIME):
        job = await node_runner.add()
        await gate.reached.wait()
    assert gate.tidied == [1], "a handler may tidy up"
    [handed_back] = await node_runner.runs(job)
    assert (handed_back.state, handed_back.attempt) == (RunState.CANCELLED, 1)
    assert handed_back.error_class is ErrorClass.HANDED_BACK
    async with node_runner.node(Does(Done())):
        again = await node_runner.closed(job, 2)
    assert (again.state, again.attempt, again.cause) == (RunState.COMPLETED, 1, Cause.RETRY)
    assert again.beat_at == handed_back.beat_at


async def test_a_node_leaves_no_lease_and_is_dead_when_it_has_left(node_runner: NodeRunner) -> None:
    async with node_runner.node(Does(Done())):
        await node_runner.closed(await node_runner.add())
    assert await node_runner.value("select count(*) from evenbeat.node where dead_at is null") == 0
    assert (
        await node_runner.value("select count(*) from evenbeat.pulse where token is not null") == 0
    )


async def test_a_claim_whose_answer_was_lost_is_handed_back_when_the_node_stops(
    node_runner: NodeRunner, clock: Clock
) -> None:
    async with node_runner.node(Does(Done())):
        job = await node_runner.add(kind="other")
        await behind_its_back(node_runner, due=job)
    [run] = await node_runner.runs(job)
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.HANDED_BACK)
    assert "answer to the claim was lost" in (run.reason or "")


async def test_a_claim_whose_answer_was_lost_is_found_after_the_connection_broke(
    node_runner: NodeRunner, other_session: Any
) -> None:
    async def cut_claim() -> bool:
        await other_session.execute("select pg_stat_clear_snapshot()")
        return await other_session.fetchval(CUT)

    gate = Gate()
    async with node_runner.node(Does(gate)):
        job = await node_runner.add(kind="other")
        await behind_its_back(node_runner, due=job)
        known = await node_runner.add()
        await gate.reached.wait()
        async with other_session.transaction():
            await other_session.execute("select from evenbeat.node for update")
            await eventually(cut_claim, "a claim to cut off")
        run = await node_runner.closed(job)
        assert (await node_runner.started(known)).state is RunState.RUNNING
        gate.open.set()
        await node_runner.closed(known)
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.HANDED_BACK)
    assert "answer to the claim was lost" in (run.reason or "")


@pytest.mark.parametrize("drain", [NO_TIME, timedelta(seconds=5)])
async def test_an_idle_node_stops_at_once(node_runner: NodeRunner, drain: timedelta) -> None:
    async with node_runner.node(Does(Done()), drain_timeout=drain) as stopping:
        stopping.set()
    living = "select count(*) from evenbeat.node where dead_at is null"
    assert await node_runner.value(living) == 0
