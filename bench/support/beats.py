"""A thousand beats a second for a quarter of a minute: how late they start, and how many miss."""

import asyncio
import statistics
from datetime import UTC, datetime, timedelta

import asyncpg
from bench.support import jobs
from bench.support.processes import program
from bench.support.server import fresh

from evenbeat.postgres import EmbeddedServer

JOBS = 1_000
SECONDS = 15
LATE = """
    select extract(epoch from started_at - beat_at)::float8 * 1000
    from evenbeat.run
    where state = 'c' and beat_at >= $1 and beat_at < $2
"""
MISSED = "select coalesce(sum(skipped_count), 0) from evenbeat.run where state = 'k'"


async def measure(running: EmbeddedServer) -> dict[str, float]:
    url = await fresh(running, "bench_beats")
    first = (datetime.now(UTC) + timedelta(seconds=5)).replace(microsecond=0)
    last = first + timedelta(seconds=SECONDS)
    await jobs.fill(url, JOBS, every="1s", beat_at=first)
    async with program("worker.py", url, "1000"):
        await asyncio.sleep((last - datetime.now(UTC)).total_seconds() + 2)
        connection = await asyncpg.connect(url)
        late = [row[0] for row in await connection.fetch(LATE, first, last)]
        missed = await connection.fetchval(MISSED)
        await connection.close()
    cuts = statistics.quantiles(late, n=100)
    return {
        "1,000 beats/s: run": len(late),
        "1,000 beats/s: missed": max(JOBS * SECONDS - len(late), missed),
        "1,000 beats/s: late ms p50": cuts[49],
        "1,000 beats/s: late ms p99": cuts[98],
    }
