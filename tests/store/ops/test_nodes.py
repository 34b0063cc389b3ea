"""Nodes: who is alive, and what kinds are known."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.database import clock as clocks
from evenbeat.store.database.connection_errors import translate_driver_errors
from evenbeat.store.database.pool import Database, connect
from evenbeat.store.database.statements import Statement
from evenbeat.store.ops import nodes
from tests.store.given import LEASE, JobStore, join
from tests.support.databases import Clock


async def test_a_node_whose_lease_has_run_out_is_dead_for_good(job_store: JobStore) -> None:
    assert await nodes.count_live_nodes(job_store.database) == 1
    await job_store.fetch("update evenbeat.node set alive_until = statement_timestamp()")
    assert await nodes.count_live_nodes(job_store.database) == 0
    assert await nodes.mark_dead_nodes(job_store.database) == ["a:1"]
    assert await nodes.mark_dead_nodes(job_store.database) == []
    assert not await nodes.renew(job_store.database, job_store.node_id, LEASE)
    assert await nodes.count_live_nodes(job_store.database) == 0


async def test_a_node_that_renews_is_not_declared_dead(job_store: JobStore) -> None:
    assert await nodes.renew(job_store.database, job_store.node_id, LEASE)
    assert await nodes.mark_dead_nodes(job_store.database) == []


async def test_a_node_that_leaves_is_dead_at_once(job_store: JobStore) -> None:
    await nodes.leave(job_store.database, job_store.node_id)
    assert await nodes.count_live_nodes(job_store.database) == 0
    assert not await nodes.renew(job_store.database, job_store.node_id, LEASE)


async def test_moving_the_clock_of_schedules_buries_nobody(
    job_store: JobStore, clock: Clock
) -> None:
    await clock.advance(days=1000)
    assert await nodes.mark_dead_nodes(job_store.database) == []


async def test_a_node_joins_with_a_number_that_was_never_used(job_store: JobStore) -> None:
    await nodes.leave(job_store.database, job_store.node_id)
    assert await join(job_store.database, "a:1") > job_store.node_id


async def test_two_undertakers_at_once_share_the_dead(job_store: JobStore) -> None:
    for place in range(20):
        await nodes.join_node(
            job_store.database,
            f"b:{place}",
            kinds=[],
            labels=[],
            lease_duration=timedelta(seconds=-1),
        )
    buried = await asyncio.gather(*(nodes.mark_dead_nodes(job_store.database) for _ in range(3)))
    assert sorted(name for each in buried for name in each) == sorted(
        f"b:{place}" for place in range(20)
    )


async def test_kinds_keep_their_numbers_however_often_they_are_registered(
    job_store: JobStore,
) -> None:
    rounds = [nodes.open_lanes(job_store.database, ["echo", "dance", "crawl"]) for _ in range(5)]
    await asyncio.gather(*rounds)
    known = {lane.kind: lane.id for lane in await nodes.list_lanes(job_store.database)}
    assert set(known) == {"crawl", "dance", "echo"}
    assert {name: known[name] for name in job_store.lanes} == job_store.lanes


async def test_the_clock_stands_where_it_was_set(database: Database, clock: Clock) -> None:
    moved = await clock.advance(days=3)
    assert await clocks.now(database) == moved


async def test_a_value_that_cannot_be_encoded_is_our_fault_and_not_the_servers(
    database: Database,
) -> None:
    echo = Statement("echo", "select :value::integer", ("value",))
    with pytest.raises(asyncpg.DataError, match="value out of int32 range"):
        await database.fetch_value(echo, value=2**40)


async def test_a_lost_connection_is_unavailable_and_the_next_one_works(
    database: Database,
) -> None:
    end = Statement("end", "select pg_terminate_backend(pg_backend_pid())", ())
    with pytest.raises(StoreUnavailable):
        await database.fetch(end)
    with pytest.raises(StoreUnavailable):
        async with database.transaction() as session:
            await session.fetch(end)
    assert await database.fetch_value(Statement("one", "select 1", ())) == 1


async def test_what_goes_wrong_in_a_transaction_undoes_it(job_store: JobStore) -> None:
    async def fail_halfway() -> None:
        async with job_store.database.transaction() as session:
            await nodes.open_lanes(session, ["half"])
            await session.fetch(Statement("fail", "select 1 / 0", ()))

    with pytest.raises(asyncpg.DivisionByZeroError):
        await fail_halfway()
    assert "half" not in {lane.kind for lane in await nodes.list_lanes(job_store.database)}


@pytest.mark.parametrize("pooler", ["on", "off"])
async def test_who_waited_for_a_lock_sees_what_was_written_whatever_the_database_says(
    database: Database, pooler: str
) -> None:
    """Under repeatable read the map, or a group, would be what it was before the wait."""
    level = Statement("level", "select current_setting('transaction_isolation')", ())
    name = await database.fetch_value(Statement("name", "select current_database()", ()))
    change = f'alter database "{name}" {{}} default_transaction_isolation'
    own = Database(database.url, pooler=pooler)
    async with database.connection() as connection:
        await connection.execute(change.format("set") + " to 'repeatable read'")
    try:
        await own.open()
        async with own.transaction() as session:
            assert await session.fetch_value(level) == "read committed"
        assert await own.fetch_value(level) == "read committed"
    finally:
        await own.close()
        async with database.connection() as connection:
            await connection.execute(change.format("reset"))


async def test_an_address_where_nobody_listens_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="cannot connect"):
        await connect("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(StoreUnavailable, match="cannot connect"):
        await connect("no address at all")


@pytest.mark.parametrize("password", ["can/ary", "can/ary@", "5432/canary"])
async def test_a_password_that_breaks_the_address_is_not_shown_as_one(password: str) -> None:
    with pytest.raises(StoreUnavailable, match="cannot connect to the database: "):
        await connect(f"postgresql://nobody:{password}@127.0.0.1:1/nothing")


async def test_a_connection_that_is_gone_is_told_as_lost(job_store: JobStore) -> None:
    connection = await connect(job_store.database.url)
    await connection.close()
    with (
        pytest.raises(StoreUnavailable, match="the connection was lost"),
        translate_driver_errors(),
    ):
        await connection.execute("select 1")
