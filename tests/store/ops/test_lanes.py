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
from tests.store.given import HOUR, JobStore, definition
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


async def test_a_job_that_asks_for_labels_is_in_a_lane_of_its_own(job_store: JobStore) -> None:
    control = Jobs(job_store.database, Registry([Echo()]))
    written = definition("now", runs_on=("gpu", "eu", "gpu"))
    job = await control.add(written)
    assert job.definition.runs_on == ("eu", "gpu")
    assert await job_store.claim() == []
    [lane] = [lane for lane in await nodes.list_lanes(job_store.database) if lane.runs_on]
    assert lane.runs_on == {"eu", "gpu"}
    again = await control.add(definition("now", runs_on=("eu", "gpu")))
    claimed = await job_store.take(leases.claim_due, {lane.id: 10})
    assert {each.id for each in claimed} == {job.id, again.id}
    assert {each.definition.runs_on for each in claimed} == {("eu", "gpu")}


async def test_lanes_opened_at_once_are_opened_once(job_store: JobStore) -> None:
    opened = [nodes.open_lanes(job_store.database, ["echo"], ["gpu"]) for _ in range(8)]
    await asyncio.gather(*opened)
    assert len(await nodes.list_lanes(job_store.database)) == 3


async def test_what_is_due_says_how_many_lanes_there_are(job_store: JobStore) -> None:
    assert (await next_due(job_store)).lane_count == 2
    await nodes.open_lanes(job_store.database, ["echo"], ["gpu"])
    assert (await next_due(job_store)).lane_count == 3


async def test_a_lane_that_commits_after_a_newer_one_changes_what_is_told(
    job_store: JobStore,
) -> None:
    async with job_store.database.transaction() as session:
        await nodes.open_lanes(session, ["slow"])
        await nodes.open_lanes(job_store.database, ["quick"])
        before = await next_due(job_store)
    assert (await next_due(job_store)).lane_count != before.lane_count


# What a node remembers of jobs.


async def test_an_edited_job_is_read_anew(job_store: JobStore, clock: Clock) -> None:
    job = await job_store.add(definition(payload="old"))
    await job_store.end(await job_store.claim_one())
    await clock.advance(hours=1)
    await job_store.fetch("update evenbeat.job set payload = '\"unseen\"'")
    claimed = await job_store.claim_one()
    assert claimed.definition.payload == "old", "a definition is read once for each version"
    await job_store.end(claimed)
    await job_store.fetch("update evenbeat.job set payload = '\"new\"', version = version + 1")
    await job_store.fetch("update evenbeat.pulse set def_version = def_version + 1")
    await clock.advance(hours=1)
    claimed = await job_store.claim_one()
    assert (claimed.id, claimed.definition.payload) == (job.id, "new")


async def test_a_memory_that_is_full_begins_anew_and_forgets_nothing_that_was_asked_for(
    job_store: JobStore,
) -> None:
    jobs = [await job_store.add(definition(payload=number)) for number in range(6)]
    remembered = DefinitionCache(most=4)
    for first in (0, 2, 1, 3, 0):
        asked = {job.id: 1 for job in jobs[first : first + 3]}
        known = await remembered.of(job_store.database, asked)
        expected = {job.id: (job.uid, job.definition) for job in jobs[first : first + 3]}
        assert known == expected


# Runs that take long.


async def test_a_tucked_run_is_out_of_the_way_and_comes_back_when_it_has_ended(
    job_store: JobStore, clock: Clock
) -> None:
    job = await job_store.add()
    claimed = await job_store.claim_one()
    in_index = "select count(*) from evenbeat.pulse where due_at is not null"
    assert await job_store.value(in_index) == 1
    await leases.tuck_runs(job_store.database, [claimed])
    assert await job_store.value(in_index) == 0
    assert (await job_store.find(job)).pulse.state is State.RUNNING
    assert await leases.list_node_runs(job_store.database, job_store.node_id) == [claimed]
    await job_store.end(claimed, outcome=Done())
    assert (await job_store.find(job)).pulse.due_at == START + HOUR
    await clock.advance(hours=1)
    assert (await job_store.claim_one()).id == job.id


async def test_only_who_holds_the_run_tucks_it_away(job_store: JobStore) -> None:
    await job_store.add()
    claimed = await job_store.claim_one()
    await job_store.fetch("update evenbeat.pulse set token = token + 1")
    await leases.tuck_runs(job_store.database, [claimed])
    assert await job_store.value("select is_tucked from evenbeat.pulse") is False
