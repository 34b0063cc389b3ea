"""Enqueueing beside raw SQL that writes the same rows: one at a time, and many at once."""

import argparse
import asyncio
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
from bench.support.rounds import rounds_within, say
from bench.support.server import fresh

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.jobs.model import Definition
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.observe import log
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database.pool import SESSION_SETTINGS
from evenbeat.store.jobs.job_inserts import new_job_uid, new_job_uids

SCHEDULE = "every 1d"
# What our rows hold, written by hand: no checks, no lanes, no keys, no plans.
TIMETABLE = '{"schedule": {"every": "1d", "phase": "0s"}}'

RAW_ONE = """
    with new_job as (
        insert into evenbeat.job (
            uid, kind, payload, timetable, policy, labels, created_at, updated_at
        )
        values ($1, 'echo', $2::text::jsonb, $3::text::jsonb, '{}', '{}', now(), now())
        returning id
    )
    insert into evenbeat.pulse (id, lane_id, state, state_at, next_beat_at)
    select id, $4, 's', now(), $5 from new_job
"""
RAW_MANY = """
    with new_job as (
        insert into evenbeat.job (
            uid, kind, payload, timetable, policy, labels, created_at, updated_at
        )
        select uid, 'echo', payload::jsonb, timetable::jsonb, '{}', '{}', now(), now()
        from unnest($1::uuid[], $2::text[], $3::text[]) as given (uid, payload, timetable)
        returning id
    )
    insert into evenbeat.pulse (id, lane_id, state, state_at, next_beat_at)
    select id, $4, 's', now(), $5 from new_job
"""
JOB_COLUMNS = (
    *("id", "uid", "kind", "payload", "timetable", "policy", "labels", "runs_on", "version"),
    *("created_at", "updated_at"),
)
PULSE_COLUMNS = ("id", "lane_id", "state", "state_at", "next_beat_at")
ENQUEUE = "select evenbeat.enqueue('echo', $1::text::jsonb, $2)"
TOMORROW = datetime(2199, 1, 1, tzinfo=UTC)

Work = Callable[[int], Awaitable[Any]]


Bulk = Callable[[Evenbeat, Any, int], Awaitable[Any]]


async def measure(running: EmbeddedServer, chosen: argparse.Namespace) -> dict[str, float]:
    rates: dict[str, list[float]] = {}
    for _ in rounds_within(chosen.rounds):
        async with opened(running) as (app, pool, lane):
            ways = {**singles(app, pool, lane), **in_transactions(app, pool)}
            for name, work in ways.items():
                say(f"measuring: {name} …")
                for at_once in (1, 8):
                    rate = await rate_of(work, at_once, chosen.seconds)
                    rates.setdefault(f"{name}, {at_once} at once", []).append(rate)
        for name, work in bulks(chosen.jobs).items():
            say(f"measuring: {name} …")
            async with opened(running) as (app, pool, lane):
                began = time.perf_counter()
                await work(app, pool, lane)
                rates.setdefault(name, []).append(chosen.jobs / (time.perf_counter() - began))
    figures = {f"jobs/s: {name}": statistics.median(each) for name, each in rates.items()}
    return figures | ratios(rates)


def ratios(rates: dict[str, list[float]]) -> dict[str, float]:
    """Round by round, since a machine that others share is another one in every round."""
    pairs = [
        (f"{ours}, {count} at once", f"{raw}, {count} at once")
        for ours, raw in (
            ("add", "raw insert"),
            ("evenbeat.enqueue", "raw insert"),
            ("add in the caller's transaction", "raw insert in a transaction"),
        )
        for count in (1, 8)
    ]
    pairs += [("add_many", f"raw {way}") for way in ("insert … select unnest", "COPY")]
    pairs += [("add_many with keys", "raw insert … select unnest")]
    return {
        f"ratio: {ours} to {raw.partition(',')[0]}": statistics.median(
            mine / theirs for mine, theirs in zip(rates[ours], rates[raw], strict=True)
        )
        for ours, raw in pairs
    }


@asynccontextmanager
async def opened(running: EmbeddedServer) -> AsyncIterator[tuple[Evenbeat, Any, int]]:
    url = await fresh(running, "bench_enqueue")
    settings = load(environ={}, cwd=Path("/"), database_url=url, log_level="error")
    log.configure(settings)
    async with (
        Evenbeat(settings) as app,
        asyncpg.create_pool(url, min_size=8, max_size=8, server_settings=SESSION_SETTINGS) as pool,
    ):
        await app.prepare_kinds()
        lane = await pool.fetchval("select id from evenbeat.lane where kind = 'echo'")
        yield app, pool, lane


async def rate_of(work: Work, at_once: int, seconds: float) -> float:
    numbers = itertools.count()
    await asyncio.gather(*(work(-1) for _ in range(at_once)))
    began = time.perf_counter()

    async def repeat() -> int:
        count = 0
        while time.perf_counter() - began < seconds:
            await work(next(numbers))
            count += 1
        return count

    counts = await asyncio.gather(*(repeat() for _ in range(at_once)))
    return sum(counts) / (time.perf_counter() - began)


def definition(number: int) -> Definition:
    return Definition("echo", EVERY_DAY, payload={"n": number})


EVERY_DAY = Timetable(parse_schedule(SCHEDULE))


def payload(number: int) -> str:
    return f'{{"n": {number}}}'


def singles(app: Evenbeat, pool: Any, lane: int) -> dict[str, Work]:
    async def raw(number: int) -> None:
        uid = new_job_uid(datetime.now(UTC))
        await pool.execute(RAW_ONE, uid, payload(number), TIMETABLE, lane, TOMORROW)

    async def add(number: int) -> None:
        await app.jobs.add(definition(number))

    async def add_due(number: int) -> None:
        await app.jobs.add(
            Definition("echo", Timetable(parse_schedule("now")), payload={"n": number})
        )

    async def enqueue(number: int) -> None:
        await pool.execute(ENQUEUE, payload(number), TOMORROW)

    return {"raw insert": raw, "add": add, "add, due now": add_due, "evenbeat.enqueue": enqueue}


def in_transactions(app: Evenbeat, pool: Any) -> dict[str, Work]:
    async def raw(number: int) -> None:
        uid = new_job_uid(datetime.now(UTC))
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute(RAW_ONE, uid, payload(number), TIMETABLE, 1, TOMORROW)

    async def add(number: int) -> None:
        async with pool.acquire() as connection, connection.transaction():
            await app.jobs.add(definition(number), connection=connection)

    return {"raw insert in a transaction": raw, "add in the caller's transaction": add}


def bulks(count: int) -> dict[str, Bulk]:
    async def unnest(_: Evenbeat, pool: Any, lane: int) -> None:
        uids = new_job_uids(datetime.now(UTC), count)
        payloads = [payload(number) for number in range(count)]
        await pool.execute(
            RAW_MANY, uids, payloads, [TIMETABLE] * count, lane, TOMORROW, timeout=300
        )

    async def copy(_: Evenbeat, pool: Any, lane: int) -> None:
        now, ids = datetime.now(UTC), itertools.count(1)
        uids = new_job_uids(now, count)
        async with pool.acquire() as connection, connection.transaction():
            await connection.copy_records_to_table(
                "job",
                schema_name="evenbeat",
                columns=JOB_COLUMNS,
                records=job_records(uids, now),
                timeout=300,
            )
            await connection.copy_records_to_table(
                "pulse",
                schema_name="evenbeat",
                columns=PULSE_COLUMNS,
                records=((next(ids), lane, b"s", now, TOMORROW) for _ in range(count)),
                timeout=300,
            )

    async def add_many(app: Evenbeat, _: Any, __: int) -> None:
        await app.jobs.add_many(definition(number) for number in range(count))

    async def add_many_keyed(app: Evenbeat, _: Any, __: int) -> None:
        await app.jobs.add_many((definition(n), f"key {n}") for n in range(count))

    return {
        "raw insert … select unnest": unnest,
        "raw COPY": copy,
        "add_many": add_many,
        "add_many with keys": add_many_keyed,
    }


def job_records(uids: list[Any], now: datetime) -> Iterator[tuple[Any, ...]]:
    for number, uid in enumerate(uids, 1):
        yield (*(number, uid, "echo", payload(number), TIMETABLE, "{}", "{}", [], 1, now, now),)
