"""Full lifecycles a second: claim, run, history row, next beat.

Every job is run twice. At the first run the worker has to read its definition, as it does for
every one-off job. At the second run it knows the definition, as it does for all later runs of a
recurring job. The CPU time of the worker is given as well: it says more on a busy machine.
"""

import statistics

import asyncpg
from bench.support import jobs, peers
from bench.support.idle import cpu_seconds
from bench.support.processes import program
from bench.support.server import fresh, until

from evenbeat.postgres import EmbeddedServer

JOBS = 20_000
ROUNDS = 2
DRIVERS = {"bare statements": "raw.py", "evenbeat": "worker.py"}

AGAIN = (
    "update evenbeat.pulse set next_beat_at = now()",
    "vacuum analyze evenbeat.pulse",
    "select pg_notify('evenbeat_wake', '')",
)
SPAN = """
    select extract(epoch from max(finished_at) - min(started_at))::float8
    from (select * from evenbeat.run order by id desc limit $1) as newest
"""


async def measure(running: EmbeddedServer) -> dict[str, float]:
    rates: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for workers in (1, 2):
            for name, driver in DRIVERS.items():
                first, second, cpu = await drain_twice(running, driver, workers)
                rates.setdefault(f"{name}, first run, {workers} process", []).append(first)
                rates.setdefault(f"{name}, {workers} process", []).append(second)
                spent.setdefault(f"{name}, {workers} process", []).append(cpu)
            peer = await drain_peer(running, workers)
            rates.setdefault(f"pgqueuer, {workers} process", []).append(peer)
    figures = {f"lifecycles/s: {name}": statistics.median(r) for name, r in rates.items()}
    figures |= {f"worker's CPU us a run: {name}": min(each) for name, each in spent.items()}
    for workers in (1, 2):
        ours = figures[f"lifecycles/s: evenbeat, {workers} process"]
        for other in ("bare statements", "pgqueuer"):
            theirs = figures[f"lifecycles/s: {other}, {workers} process"]
            figures[f"ratio: evenbeat to {other}, {workers} process"] = ours / theirs
    return figures


async def drain_twice(
    running: EmbeddedServer, driver: str, workers: int
) -> tuple[float, float, float]:
    """Jobs a second at the first and the second run, from the first start to the last end by the
    database's clock; and the microseconds of CPU that the workers spent on one of the second."""
    url = await fresh(running, "bench_lifecycle")
    await jobs.fill(url, JOBS)
    async with program(driver, url, "500", count=workers) as working:
        connection = await asyncpg.connect(url)
        try:
            first = await rate_until(connection, JOBS)
            before = sum(cpu_seconds(each.pid) for each in working)
            for statement in AGAIN:
                await connection.execute(statement)
            second = await rate_until(connection, 2 * JOBS)
            after = sum(cpu_seconds(each.pid) for each in working)
            return first, second, (after - before) / JOBS * 1e6
        finally:
            await connection.close()


async def rate_until(connection: asyncpg.Connection, done: int) -> float:
    await until(connection, "select count(*) >= $1 from evenbeat.run", done)
    return JOBS / await connection.fetchval(SPAN, JOBS)


async def drain_peer(running: EmbeddedServer, workers: int) -> float:
    url = await fresh(running, "bench_peer", migrated=False)
    python = peers.python()
    async with program("pgqueuer_peer.py", url, "fill", str(JOBS), python=python) as [filling]:
        await filling.rest()
    drained: list[tuple[float, float, float]] = []
    async with program(
        "pgqueuer_peer.py", url, "work", "1000", count=workers, python=python
    ) as working:
        for each in working:
            done, first, last = map(float, (await each.line()).split())
            drained.append((done, first, last))
    began = min(first for done, first, _ in drained if done)
    ended = max(last for _, _, last in drained)
    return JOBS / (ended - began)
