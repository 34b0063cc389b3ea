"""What a function may take: time, locks, places; and what stops it."""

from datetime import timedelta
from typing import Any

import asyncpg

from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import ErrorClass, RunState, State
from tests.sql.sql_schema import SqlSchema
from tests.support.databases import Clock
from tests.support.waiting import eventually

SLEEPS = "insert into shop.sale (note) values ('never'); perform pg_sleep(600); return null;"
# A cancellation is an error like any other to it, and it tries again.
IGNORES = """
    loop
        begin
            perform set_config('client_connection_check_interval', '0', false);
            perform pg_sleep(600);
        exception when query_canceled then
            raise notice 'not me';
        end;
    end loop;
"""
SESSIONS = """
    select pid, state, query from pg_stat_activity
    where application_name = 'evenbeat sql_function' and datname = current_database()
"""


async def sleeping(sql_schema: SqlSchema) -> Any:
    """The session of a function that sleeps."""

    async def look() -> Any:
        found = await sql_schema.fetch(f"{SESSIONS} and wait_event = 'PgSleep'")
        return found and found[0]

    return await eventually(look, "a function that sleeps")


async def nobody_is_left(sql_schema: SqlSchema) -> None:
    async def look() -> bool:
        return not await sql_schema.fetch(SESSIONS)

    await eventually(look, "the end of every session")


async def test_a_function_that_takes_longer_than_its_timeout_is_ended(
    sql_schema: SqlSchema,
) -> None:
    run = await sql_schema.outcome(SLEEPS, timeout=timedelta(milliseconds=300))
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.TIMEOUT)
    await nobody_is_left(sql_schema)
    assert await sql_schema.notes() == []


async def test_a_function_that_ignores_its_cancellation_is_ended_all_the_same(
    sql_schema: SqlSchema,
) -> None:
    run = await sql_schema.outcome(IGNORES, timeout=timedelta(milliseconds=300))
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.TIMEOUT)
    assert "still runs" not in (run.error or "")
    await nobody_is_left(sql_schema)


async def test_a_job_that_is_cancelled_ends_its_query(sql_schema: SqlSchema) -> None:
    async with sql_schema.serving():
        job = await sql_schema.call(SLEEPS)
        await sleeping(sql_schema)
        await sql_schema.cancel(job)
        run = await sql_schema.closed(job)
        await nobody_is_left(sql_schema)
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.CANCELLED)
    assert await sql_schema.notes() == []


async def test_a_node_that_stops_hands_the_run_back_and_ends_its_query(
    sql_schema: SqlSchema,
) -> None:
    async with sql_schema.serving(drain_timeout=timedelta(0)) as stopping:
        job = await sql_schema.call(SLEEPS)
        await sleeping(sql_schema)
        stopping.set()
        run = await sql_schema.closed(job)
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.HANDED_BACK)
    await nobody_is_left(sql_schema)
    assert (await sql_schema.find(job)).pulse.state is State.SCHEDULED
    assert await sql_schema.notes() == []


async def test_a_function_waits_for_a_lock_only_for_a_while(
    sql_schema: SqlSchema, other_session: asyncpg.Connection
) -> None:
    """The wait of half a minute is shortened, as any function may do."""
    body = "delete from shop.sale; return null;"
    async with other_session.transaction():
        await other_session.execute("lock table shop.sale in exclusive mode")
        run = await sql_schema.outcome(body, more="set lock_timeout = '100ms'")
    assert (run.state, run.error) == (
        RunState.FAILED,
        "canceling statement due to lock timeout",
    )
    assert "SQLSTATE: 55P03" in (run.stack_trace or "")


async def test_a_backend_that_is_killed_fails_its_run_and_the_next_attempt_works(
    sql_schema: SqlSchema, clock: Clock
) -> None:
    async with sql_schema.serving():
        job = await sql_schema.call(SLEEPS)
        session = await sleeping(sql_schema)
        await sql_schema.function("insert into shop.sale (note) values ('once'); return null;")
        await sql_schema.fetch("select pg_terminate_backend($1)", session["pid"])
        first = await sql_schema.closed(job)
        await clock.advance(minutes=1)
        second = await sql_schema.closed(job, 2)
    assert (first.state, first.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
    assert "terminating connection" in (first.error or "")
    assert second.state is RunState.COMPLETED
    assert await sql_schema.notes() == ["once"]


async def test_no_more_functions_run_at_once_than_there_are_connections(
    sql_schema: SqlSchema,
) -> None:
    """The others are not even claimed: their time has not begun."""
    body = "perform pg_advisory_xact_lock_shared(4711); return null;"
    async with sql_schema.database.connection() as holder:
        await holder.execute("select pg_advisory_lock(4711)")
        async with sql_schema.serving(sql_connections=2):
            jobs = [await sql_schema.call(body) for _ in range(5)]
            for job in jobs[:2]:
                await sql_schema.started(job)
            await eventually(lambda: waiting(sql_schema), "two that wait")
            assert (
                await sql_schema.value("select count(*) from evenbeat.pulse where token > 0") == 2
            )
            await holder.execute("select pg_advisory_unlock(4711)")
            for job in jobs:
                assert (await sql_schema.closed(job)).state is RunState.COMPLETED


async def waiting(sql_schema: SqlSchema) -> bool:
    return len(await sql_schema.fetch(f"{SESSIONS} and wait_event_type = 'Lock'")) == 2


async def test_a_place_in_a_group_comes_free_with_the_commit(sql_schema: SqlSchema) -> None:
    async with sql_schema.serving():
        jobs = [
            await sql_schema.call("return null;", group=Group("till", max_running=1))
            for _ in range(4)
        ]
        for job in jobs:
            assert (await sql_schema.closed(job)).state is RunState.COMPLETED
    assert await sql_schema.value("select count(*) from evenbeat.permit") == 0
