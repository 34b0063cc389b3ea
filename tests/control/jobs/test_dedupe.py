"""Dedupe keys: one live job of a key, whoever else adds it and whatever becomes of them."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import Conflict
from evenbeat.core.jobs.model import State
from evenbeat.core.runs.outcome import Cancelled, Done, Failed, Snoozed
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database.pool import Database
from tests.control.given import counts, definition, fetch, value
from tests.engine.node_runner import Does, Gate, NodeRunner
from tests.support.databases import Clock
from tests.support.waiting import eventually


async def test_a_key_that_a_live_job_holds_gives_that_job(jobs: Jobs, database: Database) -> None:
    first = await jobs.add(definition(payload=1), dedupe_key="k")
    second = await jobs.add(definition(payload=2), dedupe_key="k")
    assert (first.is_new, second.is_new) == (True, False)
    assert second == first
    assert (await counts(database))["job"] == (await counts(database))["pulse"] == 1


async def test_keys_that_differ_and_none_at_all_are_other_jobs(
    jobs: Jobs, database: Database
) -> None:
    for key in ("k", "K", "k ", None, None):
        assert (await jobs.add(definition(), dedupe_key=key)).is_new
    assert (await counts(database))["job"] == 5


async def test_twenty_who_add_the_same_key_at_once_make_one_job(database: Database) -> None:
    wide = Database(database.url, clock="set", pool_size=20)
    await wide.open()
    several = [Jobs(wide, Registry([Does(Done())])) for _ in range(20)]
    for round_ in range(5):
        key = f"k{round_}"
        added = await asyncio.gather(*(each.add(definition(), dedupe_key=key) for each in several))
        assert len({job.uid for job in added}) == 1
        assert [job.is_new for job in added].count(True) == 1
    assert (await counts(database))["job"] == (await counts(database))["pulse"] == 5
    for each in several:
        await each.close()
    await wide.close()


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Done(), State.COMPLETED),
        (Failed("no", is_final=True), State.FAILED),
        (Cancelled("no"), State.CANCELLED),
    ],
)
async def test_a_key_is_free_again_once_its_job_is_over(
    node_runner: NodeRunner, jobs: Jobs, outcome: Any, state: State
) -> None:
    job = await jobs.add(definition(), dedupe_key="k")
    async with node_runner.node(Does(outcome)):
        await node_runner.closed(job)
    assert (await jobs.get(job.uid)).pulse.state is state
    again = await jobs.add(definition(), dedupe_key="k")
    assert again.is_new
    assert again.uid != job.uid


async def test_a_key_is_free_again_once_its_job_is_cancelled_or_gone(
    jobs: Jobs, database: Database
) -> None:
    job = await jobs.add(definition(), dedupe_key="k")
    await jobs.cancel(job.uid)
    job = await jobs.add(definition(), dedupe_key="k")
    assert job.is_new
    await fetch(database, "delete from evenbeat.pulse where id = $1", job.id)
    await fetch(database, "delete from evenbeat.job where id = $1", job.id)
    assert (await jobs.add(definition(), dedupe_key="k")).is_new


async def test_a_key_is_held_while_its_job_runs_waits_for_a_retry_or_rests(
    node_runner: NodeRunner, jobs: Jobs, database: Database
) -> None:
    gate = Gate()
    job = await jobs.add(definition("every 1h phase=0s"), dedupe_key="k")
    await fetch(database, "update evenbeat.pulse set next_beat_at = '2030-01-01 12:00Z'")
    async with node_runner.node(Does(gate)):
        await gate.reached.wait()
        assert (await jobs.add(definition(), dedupe_key="k")).uid == job.uid
        gate.open.set()
        await node_runner.closed(job)
    for state in "szd":
        await fetch(database, "update evenbeat.pulse set state = $1", state.encode())
        assert (await jobs.add(definition(), dedupe_key="k")).uid == job.uid
    # Failed, and yet to be tried at its next beat.
    await fetch(database, "update evenbeat.pulse set state = 'f'")
    assert (await jobs.add(definition(), dedupe_key="k")).uid == job.uid


async def test_a_snoozed_job_keeps_its_key(
    node_runner: NodeRunner, jobs: Jobs, clock: Clock
) -> None:
    job = await jobs.add(definition(), dedupe_key="k")
    async with node_runner.node(Does(Snoozed(timedelta(hours=1)))):
        await node_runner.closed(job)
    assert not (await jobs.add(definition(), dedupe_key="k")).is_new


async def test_an_ended_job_cannot_come_back_while_another_holds_its_key(
    node_runner: NodeRunner, jobs: Jobs
) -> None:
    ended = await jobs.add(definition(), dedupe_key="k")
    async with node_runner.node(Does(Done())):
        await node_runner.closed(ended)
    await jobs.add(definition("every 1h"), dedupe_key="k")
    with pytest.raises(Conflict, match="dedupe key"):
        await jobs.retry(ended.uid)
    assert (await jobs.get(ended.uid)).pulse.state is State.COMPLETED


async def test_a_key_whose_first_adder_rolls_back_is_taken_by_the_second(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    """The second waits for the first to make up its mind."""
    transaction = caller.transaction()
    await transaction.start()
    await jobs.add(definition(), dedupe_key="k", connection=caller)
    second = asyncio.ensure_future(jobs.add(definition(), dedupe_key="k"))
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    await eventually(lambda: value(database, query), "the second to wait")
    await transaction.rollback()
    assert (await second).is_new
    assert (await counts(database))["job"] == 1


async def test_a_key_whose_first_adder_commits_gives_the_second_that_job(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    transaction = caller.transaction()
    await transaction.start()
    first = await jobs.add(definition(), dedupe_key="k", connection=caller)
    second = asyncio.ensure_future(jobs.add(definition(), dedupe_key="k"))
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    await eventually(lambda: value(database, query), "the second to wait")
    await transaction.commit()
    assert (await second).uid == first.uid


async def test_a_key_is_taken_and_freed_by_hundreds_and_no_two_jobs_of_it_live(
    node_runner: NodeRunner, database: Database
) -> None:
    """Adders and a node at once: whenever a job ends, somebody's add makes the next."""
    handled: list[Any] = []
    several = [Jobs(database, Registry([Does(Done())])) for _ in range(4)]

    async def add_often(each: Jobs) -> int:
        made = 0
        for _ in range(40):
            made += (await each.add(definition(), dedupe_key="k")).is_new
        return made

    async with node_runner.node(Does(lambda context: handled.append(context.job_uid) or Done())):
        made = sum(await asyncio.gather(*map(add_often, several)))
        await eventually(lambda: len(handled) == made, "every job to be run")
    assert len(set(handled)) == made == (await counts(database))["job"] > 1
    for each in several:
        await each.close()


async def test_key_and_name_are_both_checked(jobs: Jobs) -> None:
    await jobs.add(definition(name="n"), dedupe_key="k")
    assert not (await jobs.add(definition(name="other"), dedupe_key="k")).is_new
    with pytest.raises(Conflict):
        await jobs.add(definition(name="n"), dedupe_key="other")
