"""Which node claims which job, and handlers whose `run` is a plain function."""

from evenbeat.core.jobs.model import RunState, State
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done
from evenbeat.store.ops import nodes
from tests.engine.node_runner import Does, DoesWithoutAwait, Workshop


async def test_a_job_that_asks_for_labels_runs_where_they_are(workshop: Workshop) -> None:
    async with workshop.node(Does(Done(result="plain"))):
        job = await workshop.add(runs_on=("gpu", "eu"))
        assert (await workshop.closed(await workshop.add())).result == "plain"
        async with workshop.node(Does(Done(result="gpu only")), labels=("gpu",)):
            await workshop.closed(await workshop.add(runs_on=("gpu",)))
            assert (await workshop.look(job)).pulse.state is State.PENDING
        async with workshop.node(Does(Done(result="both")), labels=("asia", "eu", "gpu")):
            assert (await workshop.closed(job)).result == "both"


async def test_a_node_learns_of_a_new_lane_while_it_runs(workshop: Workshop) -> None:
    async with workshop.node(Does(Done(result="found")), labels=("gpu",)):
        await workshop.closed(await workshop.add())
        job = await workshop.add(runs_on=("gpu",))
        assert (await workshop.closed(job)).result == "found"


async def test_a_node_learns_of_a_lane_that_commits_after_a_newer_one(workshop: Workshop) -> None:
    async with workshop.node(Does(Done()), labels=("eu", "gpu")):
        async with workshop.database.transaction() as session:
            await nodes.open_lanes(session, ["work"], ["eu"])
            await workshop.closed(await workshop.add(runs_on=("gpu",)))
        late = await workshop.add(runs_on=("eu",))
        assert (await workshop.closed(late)).state is RunState.COMPLETED


async def test_a_plain_handler_that_raises_fails_its_run(workshop: Workshop) -> None:
    def act(context: RunContext) -> None:
        raise ValueError("out of order")

    async with workshop.node(DoesWithoutAwait(act)):
        run = await workshop.closed(await workshop.add(policy={"max_attempts": 1}))
    assert (run.state, run.error) == (RunState.FAILED, "ValueError: out of order")
    assert "in act" in (run.stack_trace or "")
    [letter] = await workshop.fetch("select * from evenbeat.dead_letter")
    assert (letter["id"], letter["error"]) == (run.id, run.error)
