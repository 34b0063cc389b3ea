"""What a claim costs: among more and more jobs, behind parked ones, and in a group."""

import statistics
import time
from datetime import UTC, datetime, timedelta

import asyncpg
from bench.support import jobs
from bench.support.processes import program
from bench.support.server import fresh, until

from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database.pool import ENGINE_SETTINGS, order_values
from evenbeat.store.database.route import set_json_codecs
from evenbeat.store.database.statements import load_statements

SIZES = (10_000, 300_000)
PARKED = 200_000
DUE = 100
DRAINED = 10_000
REPEATS = 30
SPAN = "select extract(epoch from max(finished_at) - min(started_at))::float8 from evenbeat.run"
LEASES, NODES = load_statements("runs/leases"), load_statements("ops/nodes")
NEXT_YEAR = datetime.now(UTC) + timedelta(days=365)


async def measure(running: EmbeddedServer) -> dict[str, float]:
    return await by_size(running) | await behind_parked(running) | await cost_of_a_group(running)


async def by_size(running: EmbeddedServer) -> dict[str, float]:
    figures: dict[str, float] = {}
    for size in SIZES:
        url = await fresh(running, "bench_claims")
        await jobs.fill(url, size, beat_at=NEXT_YEAR)
        connection = await engine_connection(url)
        figures[f"claim ms, none due of {size:,}"] = await claim_time(connection)
        await make_due(connection)
        figures[f"claim ms, {DUE} due of {size:,}"] = await claim_time(connection)
        await connection.close()
    return figures


async def behind_parked(running: EmbeddedServer) -> dict[str, float]:
    url = await fresh(running, "bench_claims")
    connection = await engine_connection(url)
    await connection.execute(
        "insert into evenbeat.job_group (key, max_running, created_at, limits_at) "
        "values ('full', 1, now(), now())"
    )
    await jobs.fill(url, PARKED, group="full")
    await connection.execute("update evenbeat.pulse set is_parked = true")
    await jobs.fill(url, 10_000, beat_at=NEXT_YEAR, name="free")
    await connection.execute("vacuum analyze evenbeat.pulse")
    await make_due(connection, only_free=True)
    figure = await claim_time(connection)
    await connection.close()
    return {f"claim ms, {DUE} due behind {PARKED:,} parked": figure}


async def cost_of_a_group(running: EmbeddedServer) -> dict[str, float]:
    """Jobs in a group whose limit is never reached: the difference is the cost of the limit."""
    rates: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(2):
        for name, group in (("without", None), ("with", "wide")):
            url = await fresh(running, "bench_groups")
            connection = await asyncpg.connect(url)
            await connection.execute(
                "insert into evenbeat.job_group (key, max_running, created_at, limits_at) "
                "values ('wide', 100000, now(), now())"
            )
            await jobs.fill(url, DRAINED, group=group)
            async with program("worker.py", url, "500"):
                await until(connection, "select count(*) >= $1 from evenbeat.run", DRAINED)
            rates[name].append(DRAINED / await connection.fetchval(SPAN))
            await connection.close()
    without, within = (statistics.median(rates[name]) for name in ("without", "with"))
    return {
        "lifecycles/s: first run, without a group": without,
        "lifecycles/s: first run, in a group": within,
        "ratio: in a group to without": within / without,
    }


async def engine_connection(url: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(url, server_settings=ENGINE_SETTINGS)
    await set_json_codecs(connection)
    return connection


async def make_due(connection: asyncpg.Connection, *, only_free: bool = False) -> None:
    where = "where group_id is null" if only_free else ""
    await connection.execute(
        "update evenbeat.pulse set next_beat_at = now() "
        f"where id in (select id from evenbeat.pulse {where} limit {DUE})"
    )


async def claim_time(connection: asyncpg.Connection) -> float:
    """Median of claims that are rolled back, so that each one finds the same jobs."""
    join = NODES["join"]
    node = {"name": "bench", "kinds": ["noop"], "labels": [], "lease_seconds": 3600.0}
    node_id = await connection.fetchval(join.text("database"), *order_values(join, node))
    lanes = [row["id"] for row in await connection.fetch(NODES["lanes"].text("database"))]
    claim = LEASES["claim_due"]
    places = [DUE] * len(lanes)
    wanted = {"node_id": node_id, "token": 1, "lane_ids": lanes, "places": places, "since": []}
    statement = await connection.prepare(claim.text("database"))
    times: list[float] = []
    for _ in range(REPEATS):
        transaction = connection.transaction()
        await transaction.start()
        began = time.perf_counter()
        await statement.fetch(*order_values(claim, wanted))
        times.append((time.perf_counter() - began) * 1000)
        await transaction.rollback()
    return statistics.median(times)
