"""Jobs in the caller's transaction: nothing before its commit, nothing after its rollback."""

import json
from typing import Any

import asyncpg
import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.jobs.groups import Group
from evenbeat.core.runs.outcome import Done
from evenbeat.store.database.pool import Database
from tests.control.given import counts, definition, rows_of
from tests.control.jobs.test_add import WRITTEN
from tests.engine.node_runner import Does, NodeRunner
from tests.support.waiting import eventually

RICH = definition(
    "every 1h",
    name="rich",
    payload={"text": "ü"},
    labels={"a": "b"},
    group=Group("site", 3),
    runs_on=("gpu",),
)


async def add_all(jobs: Jobs, caller: Any) -> None:
    await jobs.add(definition(), connection=caller)
    await jobs.add(RICH, dedupe_key="k", connection=caller)
    await jobs.add_many([(definition(payload=n), f"k{n}") for n in range(20)], connection=caller)
    await caller.execute("select evenbeat.enqueue('work', options => '{\"runs_on\": [\"eu\"]}')")


async def test_a_rollback_leaves_nothing_in_any_table(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    await jobs.add(definition())
    before = await counts(database)
    transaction = caller.transaction()
    await transaction.start()
    await add_all(jobs, caller)
    assert await counts(database) == before
    await transaction.rollback()
    assert await counts(database) == before


async def test_a_connection_that_is_lost_leaves_nothing_in_any_table(
    jobs: Jobs, database: Database
) -> None:
    await jobs.add(definition())
    before = await counts(database)
    lost = await asyncpg.connect(database.url)
    await lost.execute("begin")
    await add_all(jobs, lost)
    lost.terminate()
    assert await counts(database) == before


async def test_what_is_added_is_there_with_the_commit_and_not_before(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    await jobs.add(definition())
    async with caller.transaction():
        await add_all(jobs, caller)
        assert (await counts(database))["job"] == 1
    found = await counts(database)
    assert (found["job"], found["pulse"], found["job_group"]) == (24, 24, 1)


async def test_a_job_is_the_same_whosever_connection_it_comes_on(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    for written in WRITTEN:
        ours = await rows_of(database, (await jobs.add(written)).uid)
        async with caller.transaction():
            await caller.execute("delete from evenbeat.pulse")
            await caller.execute("delete from evenbeat.job")
            theirs = await jobs.add(written, connection=caller)
        assert await rows_of(database, theirs.uid) == ours
        assert theirs == await jobs.get(theirs.uid)
        await caller.execute("delete from evenbeat.pulse; delete from evenbeat.job")


async def test_codecs_of_the_caller_change_nothing(jobs: Jobs, caller: Any) -> None:
    for name, encoder, decoder in (("jsonb", json.dumps, json.loads), ("uuid", str, str)):
        await caller.set_type_codec(name, schema="pg_catalog", encoder=encoder, decoder=decoder)
    first = await jobs.add(RICH, dedupe_key="k", connection=caller)
    assert first == await jobs.get(first.uid)
    again = await jobs.add(RICH, dedupe_key="k", connection=caller)
    assert (again.uid, again.is_new) == (first.uid, False)


async def test_a_key_of_the_same_transaction_gives_its_job(jobs: Jobs, caller: Any) -> None:
    async with caller.transaction():
        first = await jobs.add(RICH, dedupe_key="k", connection=caller)
        again = await jobs.add(definition(payload="other"), dedupe_key="k", connection=caller)
        batch = await jobs.add_many([(definition(), "k")], connection=caller)
    assert (again, again.is_new) == (first, False)
    assert batch.uids == [first.uid]


async def test_what_is_refused_does_not_spoil_the_callers_transaction(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    await jobs.add(definition(name="taken"))
    async with caller.transaction():
        with pytest.raises(Conflict):
            await jobs.add(definition(name="taken", group=Group("g")), connection=caller)
        with pytest.raises(Conflict):
            await jobs.add_many([definition(name="taken"), definition()], connection=caller)
        with pytest.raises(InvalidInput):
            await jobs.add(definition(kind="dance"), connection=caller)
        await jobs.add(definition(name="free"), connection=caller)
    found = await counts(database)
    assert (found["job"], found["job_group"]) == (2, 0)


async def test_a_transaction_inside_of_another_is_undone_alone(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    async with caller.transaction():
        await jobs.add(definition(), connection=caller)
        inner = caller.transaction()
        await inner.start()
        await add_all(jobs, caller)
        await inner.rollback()
    assert (await counts(database))["job"] == 1


async def test_without_a_transaction_each_call_is_one(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    await add_all(jobs, caller)
    assert (await counts(database))["job"] == 23


async def test_a_connection_of_the_callers_pool_will_do(jobs: Jobs, database: Database) -> None:
    async with (
        asyncpg.create_pool(database.url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        job = await jobs.add(definition(), connection=connection)
    assert job == await jobs.get(job.uid)


async def test_another_drivers_connection_is_refused_with_what_to_do(jobs: Jobs) -> None:
    with pytest.raises(InvalidInput, match=r"connection: .*select evenbeat\.enqueue"):
        await jobs.add(definition(), connection="postgresql://")


async def test_the_commit_wakes_a_node_and_nothing_before_does(
    node_runner: NodeRunner, jobs: Jobs, caller: Any
) -> None:
    heard: list[Any] = []
    listening = await asyncpg.connect(node_runner.database.url)
    await listening.add_listener("evenbeat_wake", lambda *told: heard.append(told))
    handled: list[Any] = []
    # So patient that only a wake-up can make it look.
    work = Does(lambda context: handled.append(context.payload) or Done())
    async with node_runner.node(work, check_interval=node_runner.settings.lease_duration):
        await jobs.add(definition(payload="first"))
        await eventually(lambda: handled == ["first"], "the node to be at rest again")
        await jobs.close()
        await eventually(lambda: heard, "the first wake-up")
        heard.clear()
        async with caller.transaction():
            await jobs.add(definition(payload="second"), connection=caller)
            await listening.execute("select 1")
            assert heard == []
        await eventually(lambda: handled == ["first", "second"], "the job to run", patience=5)
    assert len(heard) >= 1
    await listening.close()
