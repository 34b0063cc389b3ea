"""SQL functions: each beat has its effect once, and its record says so, whatever dies meanwhile."""

import asyncio
import random
import signal
import time
from datetime import timedelta

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.control.ops.verify import verify
from evenbeat.core.jobs.backoff import Fixed
from evenbeat.core.jobs.model import Definition, Policy
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable, TimetableBounds
from evenbeat.observe.failpoint import SQL_STEPS
from evenbeat.store.ops import nodes
from tests.proofs.fleet import LEASE, MACHINE, Fleet
from tests.support.processes import Process
from tests.support.waiting import eventually

pytestmark = pytest.mark.proof

SHOP = """
    drop schema if exists shop cascade;
    create schema shop;
    create table shop.sale (
        job text not null,
        transaction xid not null default pg_current_xact_id()::xid
    );
    grant usage on schema shop to evenbeat_sql;
    grant insert on shop.sale to evenbeat_sql;
    create function shop.sell(given jsonb) returns jsonb language plpgsql as $$ begin
        insert into shop.sale (job) values (given ->> 'job');
        perform pg_sleep(random() * 0.05);
        return given;
    end $$;
"""
KILL = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'evenbeat sql_function' and datname = current_database()
    order by random() limit 3
"""
# An effect and its record are of one transaction, and there is no effect without a record. The
# effect says so itself: it is made in a part of that transaction, whose number its xmin would be.
APART = """
    select coalesce(sale.job, record.job)
    from shop.sale
    full join (
        select run.xmin as transaction, run.result ->> 'job' as job
        from evenbeat.run
        where run.state = 'c'
    ) as record on record.transaction = sale.transaction and record.job = sale.job
    where sale.job is null or record.job is null
"""
POLICY = Policy(max_attempts=50, backoff=Fixed(timedelta(milliseconds=100)))


def selling(name: str, schedule: str) -> Definition:
    payload = {"function": "shop.sell", "arguments": {"job": name}}
    timetable = Timetable(parse_schedule(schedule), bounds=TimetableBounds(max_runs=20))
    return Definition("sql_function", timetable, payload=payload, policy=POLICY)


async def open_job_store(fleet: Fleet) -> Jobs:
    async with fleet.database.connection() as connection:
        await connection.execute(SHOP)
    await nodes.open_lanes(fleet.database, ["sql_function"])
    return Jobs(fleet.database, Registry())


async def close_shop(fleet: Fleet) -> None:
    async with fleet.database.connection() as connection:
        await connection.execute("drop schema shop cascade")


async def add(fleet: Fleet, jobs: Jobs, count: int, span: timedelta) -> None:
    """Jobs that run once each, spread over a while; and twenty that run twenty times."""
    now = await fleet.now()
    await jobs.add_many(
        [
            selling(f"once {number}", f"once {(now + span * number / count).isoformat()}")
            for number in range(count)
        ]
    )
    await jobs.add_many([selling(f"often {number}", "every 1s") for number in range(20)])


async def check(fleet: Fleet, count: int) -> None:
    sold = "select count(*) from shop.sale where job like 'once%'"
    different = "select count(distinct job) from shop.sale where job like 'once%'"
    assert await fleet.fetch(APART) == []
    # Asked first: a job that is a dead letter was not lost, but has not run.
    dead = await fleet.fetch("select job_id, error_class, error from evenbeat.dead_letter")
    assert [tuple(row) for row in dead] == []
    assert (await fleet.value(sold), await fleet.value(different)) == (count, count)
    often = "select count(*) from shop.sale where job like 'often%' group by job"
    assert [row[0] for row in await fleet.fetch(often)] == [20] * 20
    assert [str(each) for each in await verify(fleet.database, grace=LEASE + MACHINE)] == []


async def test_a_thousand_beats_while_nodes_and_backends_are_killed(fleet: Fleet) -> None:
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    print(f"\nseed {seed}")
    count, span = 1_000, timedelta(seconds=25)
    jobs = await open_job_store(fleet)
    living = await fleet.start(2)
    await add(fleet, jobs, count, span)
    began, kills, ended = time.monotonic(), 0, 0
    while time.monotonic() - began < span.total_seconds():
        await asyncio.sleep(dice.uniform(0.1, 0.8))
        ended += len(await fleet.fetch(KILL))
        if dice.random() < 0.4:
            living.append(await replaced(fleet, living.pop(0)))
            kills += 1
    await finished(fleet)
    await check(fleet, count)
    runs = await fleet.value("select count(*) from evenbeat.run where state <> 'k'")
    print(f"\n{runs} runs, {kills} nodes and {ended} backends killed: each beat once")
    await close_shop(fleet)


@pytest.mark.parametrize("step", SQL_STEPS)
async def test_a_node_that_dies_before_the_commit_has_done_nothing(fleet: Fleet, step: str) -> None:
    jobs = await open_job_store(fleet)
    await add(fleet, jobs, 50, timedelta(seconds=3))
    [dying] = await fleet.start(EVENBEAT_FAILPOINT=f"{step}:kill:7")
    assert await dying.ended() == -signal.SIGKILL, dying.output[-3000:]
    fleet.gone[dying.pid] = await fleet.now()
    await fleet.start()
    await finished(fleet)
    await check(fleet, 50)
    await close_shop(fleet)


async def replaced(fleet: Fleet, victim: Process) -> Process:
    await fleet.kill(victim)
    [another] = await fleet.start()
    return another


async def finished(fleet: Fleet) -> None:
    left = "select count(*) = 0 from evenbeat.pulse where token > 0 or due_at is not null"
    await eventually(lambda: fleet.value(left), "the last beat", patience=120)
    await fleet.stop()
