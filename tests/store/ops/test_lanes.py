"""Lanes, the cache of definitions, and runs that are tucked away."""

import asyncio

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.jobs.model import State
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.handlers.echo import Echo
from evenbeat.store.jobs.jobs import DefinitionCache
from evenbeat.store.ops import nodes
from evenbeat.store.ops.nodes import Lane
from evenbeat.store.runs import leases
from tests.conftest import START
from tests.store.given import HOUR, Shop, definition
from tests.store.runs.test_claim import next_due
from tests.support.databases import Clock


@pytest.mark.parametrize(
    ("runs_on", "labels", "is_served"),
    [
        ((), (), True),
        ((), ("gpu",), True),
        (("gpu",), (), False),
        (("gpu",), ("eu", "gpu"), True),
        (("eu", "gpu"), ("gpu",), False),
    ],
)
def test_a_lane_is_served_by_nodes_with_its_kind_and_all_its_labels(
    runs_on: tuple[str, ...], labels: tuple[str, ...], *, is_served: bool
) -> None:
    lane = Lane(1, "echo", frozenset(runs_on))
    assert lane.is_served_by(["echo", "crawl"], labels) is is_served
    assert not lane.is_served_by(["crawl"], labels)


async def test_a_job_that_asks_for_labels_is_in_a_lane_of_its_own(shop: Shop) -> None:
    control = Jobs(shop.database, Registry([Echo()]))
    written = definition("now", runs_on=("gpu", "eu", "gpu"))
    job = await control.add(written)
    assert job.definition.runs_on == ("eu", "gpu")
    assert await shop.claim() == []
    [lane] = [lane for lane in await nodes.list_lanes(shop.database) if lane.runs_on]
    assert lane.runs_on == {"eu", "gpu"}
    again = await control.add(definition("now", runs_on=("eu", "gpu")))
    claimed = await shop.take(leases.claim_due, {lane.id: 10})
    assert {each.id for each in claimed} == {job.id, again.id}
    assert {each.definition.runs_on for each in claimed} == {("eu", "gpu")}


async def test_lanes_opened_at_once_are_opened_once(shop: Shop) -> None:
    opened = [nodes.open_lanes(shop.database, ["echo"], ["gpu"]) for _ in range(8)]
    await asyncio.gather(*opened)
    assert len(await nodes.list_lanes(shop.database)) == 3


async def test_what_is_due_says_how_many_lanes_there_are(shop: Shop) -> None:
    assert (await next_due(shop)).lane_count == 2
    await nodes.open_lanes(shop.database, ["echo"], ["gpu"])
    assert (await next_due(shop)).lane_count == 3


async def test_a_lane_that_commits_after_a_newer_one_changes_what_is_told(shop: Shop) -> None:
    async with shop.database.transaction() as session:
        await nodes.open_lanes(session, ["slow"])
        await nodes.open_lanes(shop.database, ["quick"])
        before = await next_due(shop)
    assert (await next_due(shop)).lane_count != before.lane_count


# What a node remembers of jobs.


async def test_an_edited_job_is_read_anew(shop: Shop, clock: Clock) -> None:
    job = await shop.add(definition(payload="old"))
    await shop.end(await shop.claim_one())
    await clock.advance(hours=1)
    await shop.fetch("update evenbeat.job set payload = '\"unseen\"'")
    claimed = await shop.claim_one()
    assert claimed.definition.payload == "old", "a definition is read once for each version"
    await shop.end(claimed)
    await shop.fetch("update evenbeat.job set payload = '\"new\"', version = version + 1")
    await shop.fetch("update evenbeat.pulse set def_version = def_version + 1")
    await clock.advance(hours=1)
    claimed = await shop.claim_one()
    assert (claimed.id, claimed.definition.payload) == (job.id, "new")


async def test_a_memory_that_is_full_begins_anew_and_forgets_nothing_that_was_asked_for(
    shop: Shop,
) -> None:
    jobs = [await shop.add(definition(payload=number)) for number in range(6)]
    remembered = DefinitionCache(most=4)
    for first in (0, 2, 1, 3, 0):
        asked = {job.id: 1 for job in jobs[first : first + 3]}
        known = await remembered.load_definitions(shop.database, asked)
        expected = {job.id: (job.uid, job.definition) for job in jobs[first : first + 3]}
        assert known == expected


# Runs that take long.


async def test_a_tucked_run_is_out_of_the_way_and_comes_back_when_it_has_ended(
    shop: Shop, clock: Clock
) -> None:
    job = await shop.add()
    claimed = await shop.claim_one()
    in_index = "select count(*) from evenbeat.pulse where due_at is not null"
    assert await shop.value(in_index) == 1
    await leases.tuck_runs(shop.database, [claimed])
    assert await shop.value(in_index) == 0
    assert (await shop.look(job)).pulse.state is State.RUNNING
    assert await leases.list_node_runs(shop.database, shop.node_id) == [claimed]
    await shop.end(claimed, outcome=Done())
    assert (await shop.look(job)).pulse.due_at == START + HOUR
    await clock.advance(hours=1)
    assert (await shop.claim_one()).id == job.id


async def test_only_who_holds_the_run_tucks_it_away(shop: Shop) -> None:
    await shop.add()
    claimed = await shop.claim_one()
    await shop.fetch("update evenbeat.pulse set token = token + 1")
    await leases.tuck_runs(shop.database, [claimed])
    assert await shop.value("select is_tucked from evenbeat.pulse") is False
