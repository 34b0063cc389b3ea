"""Groups at work: nodes share their limits, and whoever waits is let in."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta

from evenbeat.control.jobs.groups import Groups
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import ErrorClass, RunState
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done
from evenbeat.store.jobs.jobs import DefinitionCache
from evenbeat.store.ops import nodes
from evenbeat.store.runs import leases
from tests.engine.node_runner import Does, NodeRunner
from tests.engine.runs.test_many import add_many, is_done
from tests.support.waiting import eventually

ONE, TWO = Group("site", max_running=1), Group("site", max_running=2)


def counting(most: list[int]) -> Callable[[RunContext], Awaitable[Done]]:
    """What a handler does that counts, over all nodes, how many of it run at once."""
    running = 0

    async def act(context: RunContext) -> Done:
        nonlocal running
        running += 1
        most.append(running)
        await asyncio.sleep(0)
        running -= 1
        return Done()

    return act


async def test_two_nodes_never_run_more_of_a_group_than_it_allows_and_leave_none_behind(
    node_runner: NodeRunner,
) -> None:
    counts: list[int] = []
    act = counting(counts)
    await add_many(node_runner.database, 200, TWO)
    async with node_runner.node(Does(act)), node_runner.node(Does(act)):
        await eventually(lambda: is_done(node_runner, 200), "200 completed runs")
    assert (len(counts), max(counts)) == (200, 2)
    nodes_used = "select count(distinct node_id) from evenbeat.run"
    assert await node_runner.value(nodes_used) == 2
    assert await node_runner.value("select count(*) from evenbeat.permit") == 0


async def test_neither_the_grouped_nor_the_others_starve_on_a_node_with_one_place(
    node_runner: NodeRunner,
) -> None:
    order: list[str] = []
    await add_many(node_runner.database, 30, Group("free"), payload="grouped")
    await add_many(node_runner.database, 30, payload="alone")
    act = Does(lambda context: order.append(context.payload) or Done())
    async with node_runner.node(act, concurrency=1):
        await eventually(lambda: is_done(node_runner, 60), "60 completed runs")
    for sort in ("grouped", "alone"):
        assert sort in order[:25], "over twenty times the same lot is one chance in a million"


async def test_a_node_that_always_has_more_to_claim_still_hears_of_groups_and_new_lanes(
    node_runner: NodeRunner,
) -> None:
    await add_many(node_runner.database, 1500)
    async with node_runner.node(
        Does(Done()), labels=("gpu",), concurrency=1, drain_timeout=timedelta(0)
    ):
        await eventually(lambda: is_done(node_runner, 1), "the first of many")
        for job in (await node_runner.add(group=TWO), await node_runner.add(runs_on=("gpu",))):
            assert (await node_runner.closed(job)).state is RunState.COMPLETED
        waiting = "select count(*) from evenbeat.pulse where due_at is not null"
        assert await node_runner.value(waiting) > 0, "there was always more"


async def test_the_places_of_a_dead_node_are_given_to_those_who_wait(
    node_runner: NodeRunner,
) -> None:
    first, second = [await node_runner.add(group=ONE, policy={"max_attempts": 2}) for _ in range(2)]
    lease = timedelta(minutes=1)
    gone = await nodes.join_node(
        node_runner.database, "gone:1", kinds=["work"], labels=[], lease_duration=lease
    )
    [held] = await leases.claim_grouped(
        node_runner.database,
        gone,
        token=secrets.randbits(62),
        places={lane.id: 5 for lane in await nodes.list_lanes(node_runner.database)},
        definitions=DefinitionCache(),
    )
    assert held.id == first.id
    counts: list[int] = []
    async with node_runner.node(Does(counting(counts))):
        await node_runner.fetch(
            "update evenbeat.node set alive_until = joined_at where id = $1", gone
        )
        assert (await node_runner.closed(second)).state is RunState.COMPLETED
        assert (await node_runner.closed(first, 2)).state is RunState.COMPLETED
    assert (await node_runner.runs(first))[0].error_class is ErrorClass.LOST
    assert counts == [1, 1]


async def test_a_resumed_group_goes_on_by_itself(node_runner: NodeRunner) -> None:
    control = Groups(node_runner.database)
    job = await node_runner.add(group=TWO)
    await control.pause("site")
    async with node_runner.node(Does(Done())):
        parked = "select is_parked from evenbeat.pulse where group_id is not null"
        await eventually(lambda: node_runner.value(parked), "a parked job")
        await node_runner.closed(await node_runner.add())
        assert await node_runner.runs(job) == []
        await control.resume("site")
        assert (await node_runner.closed(job)).state is RunState.COMPLETED
