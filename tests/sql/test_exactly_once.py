"""What a function does happens once for each beat, whatever is lost on the way."""

import random
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.jobs.model import ErrorClass, RunState, State
from evenbeat.core.runs.registry import Registry
from evenbeat.store.runs.sql_login import SqlLogin, url_for_role
from tests.sql.sql_schema import SqlSchema
from tests.support.cutting_proxy import CuttingProxy, cutting_proxy
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.waiting import eventually

SELLS = "insert into shop.sale (note) values ('once'); return null;"
# Waits where a test holds the lock.
WAITS = "perform pg_advisory_xact_lock_shared(4711);" + SELLS
WAITING = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
Start = Callable[..., Process]


async def login_through(proxy: CuttingProxy, sql_schema: SqlSchema) -> SecretStr:
    """The login that a node makes for itself, by way of the proxy."""
    await SqlLogin(sql_schema.database).prepare()
    [login] = await sql_schema.fetch("select role, password from evenbeat.sql_login")
    return SecretStr(url_for_role(proxy.url, login["role"], login["password"]))


async def test_a_commit_whose_answer_was_lost_is_found_to_be_done(sql_schema: SqlSchema) -> None:
    async with cutting_proxy(sql_schema.database.url) as proxy:
        async with sql_schema.serving(sql_url=await login_through(proxy, sql_schema)):
            proxy.cut_on("COMMIT;", "answer")
            job = await sql_schema.call(SELLS)
            run = await sql_schema.closed(job)
        assert proxy.cuts == 1
    assert run.state is RunState.COMPLETED
    assert await sql_schema.notes() == ["once"]
    assert len(await sql_schema.runs(job)) == 1


async def test_a_commit_that_never_arrived_is_a_failure_and_is_made_up_for(
    sql_schema: SqlSchema, clock: Clock
) -> None:
    async with cutting_proxy(sql_schema.database.url) as proxy:
        async with sql_schema.serving(sql_url=await login_through(proxy, sql_schema)):
            proxy.cut_on("COMMIT;", "request")
            job = await sql_schema.call(SELLS)
            first = await sql_schema.closed(job)
            assert await sql_schema.notes() == []
            await clock.advance(minutes=1)
            second = await sql_schema.closed(job, 2)
        assert proxy.cuts == 1
    assert (first.state, first.error) == (
        RunState.FAILED,
        "the database does not answer: connection was closed in the middle of operation",
    )
    assert second.state is RunState.COMPLETED
    assert await sql_schema.notes() == ["once"]


# At the commit, when the end of the run is written, a trigger sleeps that was deferred once more.
SLEEPS_AT_THE_END = """
    create function shop.delay() returns trigger language plpgsql as $$ begin
        if new.note = 'once' then
            execute 'set constraints all deferred';
            execute 'set statement_timeout = 0';
            insert into shop.sale (note) values ('twice');
        else
            perform pg_sleep(600);
        end if;
        return null;
    end $$;
    create constraint trigger delay after insert on shop.sale
    deferrable initially deferred for each row execute function shop.delay();
"""
COMMITTING = "select count(*) from pg_stat_activity where query = 'COMMIT;' and state = 'active'"


async def test_a_run_that_is_stopped_in_its_commit_leaves_nothing(sql_schema: SqlSchema) -> None:
    await sql_schema.script(SLEEPS_AT_THE_END)
    async with sql_schema.serving(drain_timeout=timedelta(0)) as stopping:
        job = await sql_schema.call(SELLS)
        await eventually(lambda: sql_schema.value(COMMITTING), "the commit")
        stopping.set()
        run = await sql_schema.closed(job)
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.HANDED_BACK)
    assert await sql_schema.notes() == []


async def test_a_commit_takes_no_longer_than_others_wait_for_the_job(sql_schema: SqlSchema) -> None:
    """Else a function could keep its job from being cancelled."""
    await sql_schema.script(SLEEPS_AT_THE_END)
    async with sql_schema.serving():
        job = await sql_schema.call(SELLS)
        await eventually(lambda: sql_schema.value(COMMITTING), "the commit")
        await sql_schema.cancel(job)
        run = await sql_schema.closed(job)
    assert (run.state, run.error) == (
        RunState.FAILED,
        "the database does not answer: timed out",
    )
    assert (await sql_schema.find(job)).pulse.state is State.CANCELLED
    assert await sql_schema.notes() == []


async def test_what_a_run_did_that_was_taken_away_is_undone(
    sql_schema: SqlSchema, other_session: asyncpg.Connection
) -> None:
    """The node has not looked yet: only the fence keeps its first run from being written."""
    await other_session.execute("select pg_advisory_lock(4711)")
    async with sql_schema.serving(check_interval=timedelta(minutes=5)):
        job = await sql_schema.call(WAITS)
        await eventually(lambda: sql_schema.value(WAITING), "a run that waits")
        await Jobs(sql_schema.database, Registry()).release(job.uid)
        two = f"select count(*) = 2 from ({WAITING.replace('count(*)', '1')}) as waiting"
        await eventually(lambda: sql_schema.value(two), "its next run")
        await other_session.execute("select pg_advisory_unlock(4711)")
        run = await sql_schema.closed(job, 2)
    assert run.state is RunState.COMPLETED
    assert await sql_schema.notes() == ["once"]
    assert [each.state for each in await sql_schema.runs(job)].count(RunState.COMPLETED) == 1


async def test_the_session_of_a_killed_node_ends_and_its_run_is_taken_over(
    sql_schema: SqlSchema, start: Start
) -> None:
    process = start("worker")
    job = await sql_schema.call("perform pg_sleep(600);" + SELLS)
    asleep = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
    await eventually(lambda: sql_schema.value(asleep), "a run")
    process.kill()
    await sql_schema.function(SELLS)
    async with sql_schema.serving():
        lost, again = await sql_schema.closed(job), await sql_schema.closed(job, 2)
    assert (lost.error_class, again.state) == (ErrorClass.LOST, RunState.COMPLETED)
    assert await sql_schema.notes() == ["once"]
    gone = f"select count(*) = 0 from ({asleep.replace('count(*)', '1')}) as asleep"
    await eventually(lambda: sql_schema.value(gone), "the end of its session")


async def test_a_node_that_wakes_up_too_late_undoes_what_its_function_did(
    sql_schema: SqlSchema, start: Start
) -> None:
    process = start("worker", EVENBEAT_FAILPOINT="before_settle:stop")
    job = await sql_schema.call(SELLS)
    await sql_schema.started(job)
    await eventually(lambda: is_stopped(process), "a frozen node")
    async with sql_schema.serving():
        await sql_schema.closed(job, 2)
        assert await sql_schema.notes() == ["once"], "that of the one who took over"
        process.signal(signal.SIGCONT)
        await process.says("Run lost its lease")
    assert await sql_schema.notes() == ["once"]
    assert (await sql_schema.find(job)).pulse.state is State.COMPLETED


def is_stopped(process: Process) -> bool:
    status = Path(f"/proc/{process.pid}/stat").read_text()
    return status.rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("beats", [50])
async def test_every_beat_once_while_backends_are_killed(
    sql_schema: SqlSchema, clock: Clock, beats: int
) -> None:
    """A small one of the proof, with killed backends alone."""
    chance = random.Random(beats)
    async with sql_schema.serving(check_interval=timedelta(milliseconds=100)):
        await sql_schema.function(
            "insert into shop.sale (note) values (given ->> 'till'); return given;",
            name="work(given jsonb)",
        )
        jobs = [
            await sql_schema.add(
                kind="sql_function",
                payload={"function": "shop.work", "arguments": {"till": str(till)}},
                policy={"max_attempts": 100},
            )
            for till in range(beats)
        ]

        async def is_done() -> bool:
            if chance.random() < 0.5:
                await sql_schema.fetch(KILL)
            await clock.advance(hours=1)
            done = "select count(*) from evenbeat.run where state = 'c'"
            return await sql_schema.value(done) == len(jobs)

        await eventually(is_done, "the last beat")
    assert sorted(map(int, await sql_schema.notes())) == list(range(beats))
    rows = await sql_schema.fetch(
        "select result ->> 'till' as till from evenbeat.run where state = 'c'"
    )
    assert sorted(int(row["till"]) for row in rows) == list(range(beats))


KILL = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'evenbeat sql_function' and datname = current_database()
    order by random() limit 3
"""
