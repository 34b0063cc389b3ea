"""Tasks beside raw SQL that writes the same rows: posted, added by the thousand, and drained."""

import argparse
import asyncio
import contextlib
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
from bench.support import jobs
from bench.support.api_asking import Target
from bench.support.lifecycle import SPAN
from bench.support.processes import program
from bench.support.rounds import BUDGET, rounds_within, say
from bench.support.server import fresh, until

from evenbeat.api.tasks.wire import read_task
from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.control.ops.token_signing import make_token
from evenbeat.core.jobs.model import Definition
from evenbeat.core.ops.access import Role
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database.pool import SESSION_SETTINGS
from evenbeat.store.jobs.job_inserts import new_job_uid, new_job_uids

DRIVERS = {"bare statements": ("raw.py", "once"), "evenbeat": ("worker.py",)}
SECRET = "a secret that only this benchmark knows, long enough"
LATER = "2100-01-01T00:00:00Z"
TASK = {"type": "echo", "payload": {"hello": "world"}, "runAt": LATER}
JOB = {"kind": "echo", "payload": {"hello": "world"}, "schedule": f"once {LATER}"}
# What our rows hold, written by hand: no checks, no lanes, no plans.
TIMETABLE = f'{{"schedule": {{"once": "{LATER}"}}}}'
POLICY = '{"backoff": {"kind": "linear", "step": 5, "cap": 3600, "jitter": 0.0}}'
RAW_ONE = """
    with new_job as (
        insert into evenbeat.job (
            uid, kind, payload, timetable, policy, labels, created_at, updated_at
        )
        values ($1, 'echo', $2::text::jsonb, $3::text::jsonb, $4::text::jsonb, '{}', now(), now())
        returning id, uid
    ),
    audited as (
        insert into evenbeat.audit (at, actor, action, job_id, job_uid, before, after)
        select now(), 'bench', 'add', id, uid, '{}', '{}' from new_job
    )
    insert into evenbeat.pulse (id, lane_id, state, state_at, next_beat_at)
    select id, $5, 'p', now(), $6 from new_job
"""
RAW_MANY = """
    with new_job as (
        insert into evenbeat.job (
            uid, kind, payload, timetable, policy, labels, created_at, updated_at
        )
        select uid, 'noop', payload::jsonb, $3::text::jsonb, $4::text::jsonb, '{}', now(), now()
        from unnest($1::uuid[], $2::text[]) as given (uid, payload)
        returning id
    )
    insert into evenbeat.pulse (id, lane_id, state, state_at, next_beat_at)
    select id, $5, 'p', now(), $6 from new_job
"""
Figures = dict[str, float]
Work = Callable[[], Awaitable[Any]]


async def measure(running: EmbeddedServer, chosen: argparse.Namespace) -> Figures:
    began = time.monotonic()
    figures = await posted(running, chosen.seconds)
    rates: dict[str, list[float]] = {}
    left = BUDGET - (time.monotonic() - began)
    for _ in rounds_within(chosen.rounds, seconds=left):
        say("measuring: bulk …")
        for name, rate in (await added(running, chosen.tasks)).items():
            rates.setdefault(name, []).append(rate)
        for name, driver in DRIVERS.items():
            say(f"measuring: drain, {name} …")
            rate = await drained(running, *driver, count=chosen.tasks)
            rates.setdefault(f"drain, {name}: tasks/s", []).append(rate)
    return figures | {name: statistics.median(each) for name, each in rates.items()} | ratios(rates)


def ratios(rates: dict[str, list[float]]) -> Figures:
    """Round by round, since a machine that others share is another one in every round."""
    pairs = {
        "bulk: ratio to raw SQL": ("bulk, evenbeat: tasks/s", "bulk, raw SQL: tasks/s"),
        "drain: ratio to bare statements": (
            *("drain, evenbeat: tasks/s", "drain, bare statements: tasks/s"),
        ),
    }
    return {
        name: statistics.median(
            mine / theirs for mine, theirs in zip(rates[ours], rates[raw], strict=True)
        )
        for name, (ours, raw) in pairs.items()
    }


async def posted(running: EmbeddedServer, seconds: float) -> Figures:
    """One at a time, over 8 connections and over one; raw SQL in the same way."""
    url = await fresh(running, "bench_tasks")
    settings = load(environ={}, cwd=Path("/"), jwt_secret=SECRET)
    token = make_token(settings, name="bench", role=Role.OPERATOR, lifetime=timedelta(days=1))
    figures: Figures = {}
    async with (
        contextlib.AsyncExitStack() as stack,
        program("api_server.py", url, SECRET) as [ours],
        asyncpg.create_pool(url, min_size=8, max_size=8, server_settings=SESSION_SETTINGS) as pool,
    ):
        target = Target(await ours.line(), token)
        # Started second: it reads the id of the lane that our server opens.
        [plain] = await stack.enter_async_context(program("api_plain.py", url))
        yardstick = Target(await plain.line())
        lane = await pool.fetchval("select id from evenbeat.lane where kind = 'echo'")
        asked = {
            "plain FastAPI, POST": (yardstick, yardstick.request("POST", "/", TASK)),
            "plain FastAPI, one insert": (yardstick, yardstick.request("POST", "/tasks", TASK)),
            "POST /tasks": (target, target.request("POST", "/tasks", TASK)),
            "POST /api/v1/jobs": (target, target.request("POST", "/api/v1/jobs", JOB)),
        }
        for name, (whom, request) in asked.items():
            say(f"measuring: {name} …")
            speed = await whom.measure(request, connections=8, seconds=seconds)
            alone = await whom.measure(request, connections=1, seconds=seconds)
            figures[f"{name}: requests/s"] = speed.per_second
            figures[f"{name}: ms alone"] = alone.median_ms
        insert = inserting(pool, lane)
        raw = figures["raw SQL, one insert: tasks/s"] = await rate_of(insert, 8, seconds)
        figures["raw SQL, one insert: ms alone"] = 1000 / await rate_of(insert, 1, seconds)
    ours_rate = figures["POST /tasks: requests/s"]
    for name in ("plain FastAPI, POST", "plain FastAPI, one insert"):
        share = ours_rate / figures[f"{name}: requests/s"]
        figures[f"POST /tasks: share of {name}"] = share
    figures["POST /tasks: share of raw SQL"] = ours_rate / raw
    return figures


def inserting(pool: Any, lane: int) -> Work:
    async def insert() -> None:
        uid = new_job_uid(datetime.now(UTC))
        later = datetime.fromisoformat(LATER)
        await pool.execute(RAW_ONE, uid, '{"hello": "world"}', TIMETABLE, POLICY, lane, later)

    return insert


async def rate_of(work: Work, at_once: int, seconds: float) -> float:
    count, ends_at = 0, time.monotonic() + seconds

    async def worker() -> None:
        nonlocal count
        while time.monotonic() < ends_at:
            await work()
            count += 1

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return count / (time.perf_counter() - began)


async def added(running: EmbeddedServer, count: int) -> Figures:
    """All at once: `eb.jobs.add_many`, and raw SQL by `unnest`."""
    rates: Figures = {}
    url = await fresh(running, "bench_tasks")
    connection: Any = await asyncpg.connect(url, server_settings=SESSION_SETTINGS)
    try:
        lane = await open_lane(connection)
        uids = new_job_uids(datetime.now(UTC), count)
        payloads = [f'{{"n": {number}}}' for number in range(count)]
        later = datetime.fromisoformat(LATER)
        began = time.perf_counter()
        await connection.execute("set statement_timeout = 0")
        await connection.execute(RAW_MANY, uids, payloads, TIMETABLE, POLICY, lane, later)
        rates["bulk, raw SQL: tasks/s"] = count / (time.perf_counter() - began)
    finally:
        await connection.close()
    took = await fill(await fresh(running, "bench_tasks"), count)
    return rates | {"bulk, evenbeat: tasks/s": count / took}


async def drained(running: EmbeddedServer, driver: str, *more: str, count: int) -> float:
    """Tasks a second of one process, from the first start to the last end."""
    url = await fresh(running, "bench_tasks")
    await fill(url, count, is_due=True)
    connection: Any = await asyncpg.connect(url)
    try:
        await connection.execute("vacuum analyze evenbeat.pulse, evenbeat.job")
        async with program(driver, url, "500", *more):
            await until(connection, "select count(*) >= $1 from evenbeat.run", count)
        return count / await connection.fetchval(SPAN, count)
    finally:
        await connection.close()


async def fill(url: str, count: int, *, is_due: bool = False) -> float:
    """Add so many tasks; says how long it took."""
    connection = await asyncpg.connect(url)
    await open_lane(connection)
    await connection.close()
    now = datetime.now(UTC)
    run_at = now.isoformat() if is_due else LATER
    settings = load(environ={}, cwd=Path("/"), database_url=url, log_level="error")
    async with Evenbeat(settings) as app:
        began = time.perf_counter()
        await app.jobs.add_many(task(number, run_at, now) for number in range(count))
        return time.perf_counter() - began


def task(number: int, run_at: str, now: datetime) -> Definition:
    return read_task({"type": "noop", "payload": {"n": number}, "runAt": run_at}, now).definition


async def open_lane(connection: Any) -> int:
    await connection.execute(jobs.LANE, "noop")
    return await connection.fetchval("select id from evenbeat.lane where kind = 'noop'")
