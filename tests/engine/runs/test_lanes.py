"""Which node is given which job, and handlers that never wait."""

import pytest

from evenbeat.core.jobs.model import RunState, State
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done
from evenbeat.engine import node
from evenbeat.store.ops import nodes
from tests.engine.node_runner import Does, DoesAtOnce, Gate, NodeRunner


async def test_a_job_that_asks_for_labels_runs_where_they_are(node_runner: NodeRunner) -> None:
    async with node_runner.node(Does(Done(result="plain"))):
        job = await node_runner.add(runs_on=("gpu", "eu"))
        assert (await node_runner.closed(await node_runner.add())).result == "plain"
        async with node_runner.node(Does(Done(result="gpu only")), labels=("gpu",)):
            await node_runner.closed(await node_runner.add(runs_on=("gpu",)))
            assert (await node_runner.find(job)).pulse.state is State.PENDING
        async with node_runner.node(Does(Done(result="both")), labels=("asia", "eu", "gpu")):
            assert (await node_runner.closed(job)).result == "both"


async def test_a_node_learns_of_a_new_lane_while_it_runs(node_runner: NodeRunner) -> None:
    async with node_runner.node(Does(Done(result="found")), labels=("gpu",)):
        await node_runner.closed(await node_runner.add())
        job = await node_runner.add(runs_on=("gpu",))
        assert (await node_runner.closed(job)).result == "found"


async def test_a_node_learns_of_a_lane_that_commits_after_a_newer_one(
    node_runner: NodeRunner,
) -> None:
    async with node_runner.node(Does(Done()), labels=("eu", "gpu")):
        async with node_runner.database.transaction() as session:
            await nodes.open_lanes(session, ["work"], ["eu"])
            await node_runner.closed(await node_runner.add(runs_on=("gpu",)))
        late = await node_runner.add(runs_on=("eu",))
        assert (await node_runner.closed(late)).state is RunState.COMPLETED


async def test_a_handler_that_never_waits_needs_no_place(node_runner: NodeRunner) -> None:
    gate = Gate()
    async with node_runner.node(Does(gate, kind="slow"), DoesAtOnce(Done(result=1)), concurrency=1):
        slow = await node_runner.add(kind="slow")
        await gate.reached.wait()
        for _ in range(3):
            run = await node_runner.closed(await node_runner.add())
            assert (run.state, run.result) == (RunState.COMPLETED, 1)
        gate.open.set()
        await node_runner.closed(slow)


async def test_while_nothing_can_be_written_handlers_that_wait_are_given_their_jobs(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As it is while a stranger's transaction holds the jobs whose runs have ended.
    monkeypatch.setattr(node, "MOST_UNWRITTEN", -1)
    async with node_runner.node(Does(Done(), kind="slow"), DoesAtOnce(Done())):
        job = await node_runner.add()
        for _ in range(2):
            run = await node_runner.closed(await node_runner.add(kind="slow"))
            assert run.state is RunState.COMPLETED
        assert (await node_runner.find(job)).pulse.state is State.PENDING


async def test_what_a_handler_that_never_waits_raises_fails_its_run(
    node_runner: NodeRunner,
) -> None:
    def act(context: RunContext) -> None:
        raise ValueError("out of order")

    async with node_runner.node(DoesAtOnce(act)):
        run = await node_runner.closed(await node_runner.add(policy={"max_attempts": 1}))
    assert (run.state, run.error) == (RunState.FAILED, "ValueError: out of order")
    assert "in act" in (run.stack_trace or "")
    [letter] = await node_runner.fetch("select * from evenbeat.dead_letter")
    assert (letter["id"], letter["error"]) == (run.id, run.error)
