"""What retention costs those who work: full lifecycles and claims, with it and without, in one run.

Millions of old runs are written straight into the table, and counted as if a janitor had been at
it. Then the same jobs are drained again and again by one node, by turns while its janitor removes
runs and while it rests.
"""

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import asyncpg
from bench.support import claims, jobs
from bench.support.processes import program
from bench.support.server import fresh, server, until

from evenbeat.config import load
from evenbeat.observe import log
from evenbeat.postgres import EmbeddedServer

DRAINED = 40_000
ROUNDS = 4
RUNS_PER_JOB = 1000

# Runs of the last ninety days in the order of their ids, the jobs by turns.
HISTORY = """
    insert into evenbeat.run (
        id, job_id, number, state, cause, beat_at, attempt, started_at, finished_at, duration_ms
    )
    select n, 1 + n % $2, 1 + n / $2, 'c', 's', at, 1, at, at + interval '1 second', 1000
    from generate_series($3::bigint, $4::bigint) as n
    cross join lateral (
        select now() - interval '90 days' * (1 - n::float8 / $1) as at
    ) as started
"""
COUNTED = """
    insert into evenbeat.chore (name, cursor, goal, next_at)
    select name, case when name = 'count' then $1 else 0 end, $1,
        now() + interval '1 day'
    from unnest(array['count', 'runs', 'jobs', 'days', 'strays', 'figures', 'jobs_by_state']) name
"""
REST = "update evenbeat.chore set next_at = now() + interval '1 day' where name = 'runs'"
WORK = "update evenbeat.chore set next_at = now() where name = 'runs'"
REMOVED = "select total_count from evenbeat.chore where name = 'runs'"
AGAIN = (
    "update evenbeat.pulse set next_beat_at = now() where lane_id = 2",
    "vacuum analyze evenbeat.pulse",
    "checkpoint",
)
DUE = f"update evenbeat.pulse set next_beat_at = now() where lane_id = 1 and id <= {claims.DUE}"
IS_DRAINED = "select not exists (select from evenbeat.pulse where next_beat_at <= now())"
SPAN = """
    select extract(epoch from max(finished_at) - min(started_at))::float8
    from (select * from evenbeat.run order by id desc limit $1) as newest
"""


async def fill(url: str, runs: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        old_jobs = runs // RUNS_PER_JOB
        await jobs.fill(url, old_jobs, kind="old", beat_at=claims.NEXT_YEAR, name="old")
        await jobs.fill(url, DRAINED, beat_at=claims.NEXT_YEAR)
        step = 500_000
        for first in range(1, runs + 1, step):
            last = min(first + step - 1, runs)
            await connection.execute(HISTORY, runs, old_jobs, first, last)
        await connection.execute("select setval('evenbeat.run_id', $1)", runs)
        await connection.execute(
            "update evenbeat.pulse set run_number = $1 where lane_id = 1", RUNS_PER_JOB + 1
        )
        await connection.execute(COUNTED, runs)
        await connection.execute("vacuum analyze evenbeat.run")
    finally:
        await connection.close()


async def drain(connection: asyncpg.Connection, *, retains: bool) -> tuple[float, float]:
    """Lifecycles a second, and runs removed a second meanwhile."""
    await rest_or_work(connection, retains=retains)
    for statement in AGAIN:
        await connection.execute(statement)
    before, began = await connection.fetchval(REMOVED), time.monotonic()
    await connection.execute("select pg_notify('evenbeat_wake', '')")
    await until(connection, IS_DRAINED)
    removed = (await connection.fetchval(REMOVED) - before) / (time.monotonic() - began)
    return DRAINED / await connection.fetchval(SPAN, DRAINED), removed


async def rest_or_work(connection: asyncpg.Connection, *, retains: bool) -> None:
    """A janitor takes some seconds to notice that there is something to do."""
    await connection.execute(WORK if retains else REST)
    if retains:
        before = await connection.fetchval(REMOVED)
        await until(connection, f"select ({REMOVED}) > $1", before)


async def measure(running: EmbeddedServer, runs: int) -> dict[str, float]:
    url = await fresh(running, "bench_retention")
    began = time.monotonic()
    await fill(url, runs)
    print(f"{runs:,} runs written in {time.monotonic() - began:.0f} s", file=sys.stderr)
    rates: dict[bool, list[float]] = {False: [], True: []}
    removed: list[float] = []
    times: dict[bool, list[float]] = {False: [], True: []}
    connection = await claims.engine_connection(url)
    async with program("worker.py", url, "500"):
        await drain(connection, retains=False)
        for _ in range(ROUNDS):
            for retains in (False, True):
                rate, gone = await drain(connection, retains=retains)
                rates[retains].append(rate)
                removed += [gone] if retains else []
        # Of a kind that the node does not serve, so that only this claims them.
        await connection.execute(DUE)
        for _ in range(ROUNDS):
            for retains in (False, True):
                await rest_or_work(connection, retains=retains)
                times[retains].append(await claims.claim_time(connection))
        await connection.execute(REST)
    await connection.close()
    rate, claim = ({k: statistics.median(v) for k, v in each.items()} for each in (rates, times))
    return {
        "lifecycles/s: without retention": rate[False],
        "lifecycles/s: while runs are removed": rate[True],
        "ratio: lifecycles with retention to without": rate[True] / rate[False],
        "runs removed a second meanwhile": statistics.median(removed),
        "claim ms: without retention": claim[False],
        "claim ms: while runs are removed": claim[True],
        "ratio: claim with retention to without": claim[True] / claim[False],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs",
        type=int,
        default=10_000_000,
        help="old runs; the janitor must not run out of them",
    )
    chosen = parser.parse_args()
    log.configure(load(environ={}, log_level="error"))
    with server() as running:
        figures = asyncio.run(measure(running, chosen.runs))
    for name, value in figures.items():
        print(f"{name:58} {value:12,.2f}")


if __name__ == "__main__":
    main()
