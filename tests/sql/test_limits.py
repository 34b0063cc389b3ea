"""What a function may take: time, locks, places; and what stops it."""

from datetime import timedelta
from typing import Any

import asyncpg

from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import ErrorClass, RunState, State
from tests.sql.sql_schema import Shop
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


async def sleeping(shop: Shop) -> Any:
    """The session of a function that sleeps."""

    async def look() -> Any:
        found = await shop.fetch(f"{SESSIONS} and wait_event = 'PgSleep'")
        return found and found[0]

    return await eventually(look, "a function that sleeps")


async def nobody_is_left(shop: Shop) -> None:
    async def look() -> bool:
        return not await shop.fetch(SESSIONS)

    await eventually(look, "the end of every session")


async def test_a_function_that_takes_longer_than_its_timeout_is_ended(shop: Shop) -> None:
    run = await shop.outcome(SLEEPS, timeout=timedelta(milliseconds=300))
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.TIMEOUT)
    await nobody_is_left(shop)
    assert await shop.notes() == []


async def test_a_function_that_ignores_its_cancellation_is_ended_all_the_same(shop: Shop) -> None:
    run = await shop.outcome(IGNORES, timeout=timedelta(milliseconds=300))
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.TIMEOUT)
    assert "still runs" not in (run.error or "")
    await nobody_is_left(shop)


async def test_a_job_that_is_cancelled_ends_its_query(shop: Shop) -> None:
    async with shop.serving():
        job = await shop.call(SLEEPS)
        await sleeping(shop)
        await shop.cancel(job)
        run = await shop.closed(job)
        await nobody_is_left(shop)
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.CANCELLED)
    assert await shop.notes() == []


async def test_a_node_that_stops_hands_the_run_back_and_ends_its_query(shop: Shop) -> None:
    async with shop.serving(drain_timeout=timedelta(0)) as stopping:
        job = await shop.call(SLEEPS)
        await sleeping(shop)
        stopping.set()
        run = await shop.closed(job)
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.HANDED_BACK)
    await nobody_is_left(shop)
    assert (await shop.look(job)).pulse.state is State.SCHEDULED
    assert await shop.notes() == []


async def test_a_function_waits_for_a_lock_only_for_a_while(
    shop: Shop, other_session: asyncpg.Connection
) -> None:
    """The wait of half a minute is shortened, as any function may do."""
    body = "delete from shop.sale; return null;"
    async with other_session.transaction():
        await other_session.execute("lock table shop.sale in exclusive mode")
        run = await shop.outcome(body, more="set lock_timeout = '100ms'")
    assert (run.state, run.error) == (
        RunState.FAILED,
        "canceling statement due to lock timeout",
    )
    assert "SQLSTATE: 55P03" in (run.stack_trace or "")


async def test_a_backend_that_is_killed_fails_its_run_and_the_next_attempt_works(
    shop: Shop, clock: Clock
) -> None:
    async with shop.serving():
        job = await shop.call(SLEEPS)
        session = await sleeping(shop)
        await shop.function("insert into shop.sale (note) values ('once'); return null;")
        await shop.fetch("select pg_terminate_backend($1)", session["pid"])
        first = await shop.closed(job)
        await clock.advance(minutes=1)
        second = await shop.closed(job, 2)
    assert (first.state, first.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
    assert "terminating connection" in (first.error or "")
    assert second.state is RunState.COMPLETED
    assert await shop.notes() == ["once"]


async def test_no_more_functions_run_at_once_than_there_are_connections(shop: Shop) -> None:
    """The others are not even claimed: their time has not begun."""
    body = "perform pg_advisory_xact_lock_shared(4711); return null;"
    async with shop.database.connection() as holder:
        await holder.execute("select pg_advisory_lock(4711)")
        async with shop.serving(sql_connections=2):
            jobs = [await shop.call(body) for _ in range(5)]
            for job in jobs[:2]:
                await shop.started(job)
            await eventually(lambda: waiting(shop), "two that wait")
            assert await shop.value("select count(*) from evenbeat.pulse where token > 0") == 2
            await holder.execute("select pg_advisory_unlock(4711)")
            for job in jobs:
                assert (await shop.closed(job)).state is RunState.COMPLETED


async def waiting(shop: Shop) -> bool:
    return len(await shop.fetch(f"{SESSIONS} and wait_event_type = 'Lock'")) == 2


async def test_a_place_in_a_group_comes_free_with_the_commit(shop: Shop) -> None:
    async with shop.serving():
        jobs = [
            await shop.call("return null;", group=Group("till", max_running=1)) for _ in range(4)
        ]
        for job in jobs:
            assert (await shop.closed(job)).state is RunState.COMPLETED
    assert await shop.value("select count(*) from evenbeat.permit") == 0
