"""Figures of the whole cluster: one node measures and stores them, every process reads them."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from evenbeat.core.balance.model import Score
from evenbeat.core.balance.plan_records import BalanceFigures, RebalanceTotals
from evenbeat.core.jobs.model import State
from evenbeat.core.ops.figures import (
    ClusterFigures,
    DatabaseFigures,
    LaneFigures,
    RunTotals,
    ScheduleLag,
    TableFigures,
)
from evenbeat.store.database import clock
from evenbeat.store.database.codes import STATES
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.ops import nodes

SQL = load_statements("ops/figures")
CLUSTER, JOBS, BALANCE = "cluster", "jobs", "balance"
# The health probe reads this many due jobs of each lane, and so answers within milliseconds.
MOST_PROBED = 100
# Due jobs and letters are counted up to this number.
MOST_COUNTED = 10_000


async def read_lag(session: Session) -> ScheduleLag:
    row = await session.fetch_row(SQL["lag"], most=MOST_PROBED)
    if row is None:
        return ScheduleLag(timedelta(0), timedelta(0), 0, None)
    return ScheduleLag(
        served=timedelta(seconds=row["served"]),
        unserved=timedelta(seconds=row["unserved"]),
        live_nodes=row["nodes"],
        silent=seconds(row["silent"]),
    )


async def save_figures(session: Session) -> None:
    """Store all figures but the count of jobs."""
    await session.execute(SQL["save"], name=CLUSTER, value=await collect_figures(session))


async def measure_figures(session: Session) -> ClusterFigures:
    """All figures but the count of jobs, measured now; nothing is written."""
    return figures_from(await collect_figures(session), await clock.now(session), None)


async def collect_figures(session: Session) -> dict[str, Any]:
    """A few bounded statements."""
    lanes = await session.fetch(SQL["lanes"], most=MOST_COUNTED)
    [letters] = await session.fetch(SQL["dead_letters"], most=MOST_COUNTED)
    totals = await session.fetch(SQL["run_totals"])
    [database] = await session.fetch(SQL["database"])
    tables = await session.fetch(SQL["tables"])
    return {
        "lanes": [dict(row) for row in lanes],
        "nodes": await nodes.count_live_nodes(session),
        "dead_letters": dict(letters),
        "runs": [dict(row) for row in totals],
        "database": dict(database),
        "tables": [dict(row) for row in tables],
    }


async def save_job_counts(session: Session) -> int:
    """Count jobs by state; reads every pulse."""
    await session.execute(SQL["allow_sequential_scans"])
    rows = await session.fetch(SQL["jobs_by_state"])
    counts = {str(STATES[row["state"]]): row["count"] for row in rows}
    await session.execute(SQL["save"], name=JOBS, value=counts)
    return sum(counts.values())


async def read_figures(session: Session) -> ClusterFigures | None:
    """None: no node has stored figures yet."""
    rows = {row["name"]: row for row in await session.fetch(SQL["read"], names=[CLUSTER, JOBS])}
    if CLUSTER not in rows:
        return None
    cluster = rows[CLUSTER]
    return figures_from(cluster["value"], cluster["taken_at"], rows.get(JOBS))


def figures_from(
    taken: dict[str, Any], taken_at: datetime, counted: asyncpg.Record | None
) -> ClusterFigures:
    counted_at, jobs = counted_from(counted)
    return ClusterFigures(
        taken_at=taken_at,
        lanes=tuple(lane_from(lane) for lane in taken["lanes"]),
        live_nodes=taken["nodes"],
        open_dead_letters=taken["dead_letters"]["count"],
        oldest_dead_letter=timedelta(seconds=taken["dead_letters"]["age"]),
        runs=tuple(RunTotals(**totals) for totals in taken["runs"]),
        database=database_from(taken["database"], taken["tables"]),
        counted_at=counted_at,
        jobs=jobs,
    )


async def save_balance(session: Session, balance: BalanceFigures) -> None:
    value = {
        "score": asdict(balance.score),
        "job_counts": list(balance.job_counts),
        "peak_count": balance.peak_count,
        "rebalances": asdict(balance.rebalances),
    }
    await session.execute(SQL["save"], name=BALANCE, value=value)


async def read_balance(session: Session) -> BalanceFigures | None:
    """None: no node has measured the distribution yet."""
    row = await session.fetch_row(SQL["read"], names=[BALANCE])
    if row is None:
        return None
    value: dict[str, Any] = row["value"]
    return BalanceFigures(
        taken_at=row["taken_at"],
        score=Score(**value["score"]),
        job_counts=tuple(value["job_counts"]),
        peak_count=value["peak_count"],
        rebalances=RebalanceTotals(**value["rebalances"]),
    )


def counted_from(row: asyncpg.Record | None) -> tuple[datetime | None, dict[State, int]]:
    if row is None:
        return None, {}
    counts: dict[str, int] = row["value"]
    return row["taken_at"], {State(state): count for state, count in counts.items()}


def lane_from(taken: dict[str, Any]) -> LaneFigures:
    return LaneFigures(
        kind=taken["kind"],
        runs_on=tuple(taken["runs_on"]),
        is_served=taken["is_served"],
        due=taken["due"],
        lag=timedelta(seconds=taken["lag"]),
    )


def database_from(taken: dict[str, Any], tables: list[dict[str, Any]]) -> DatabaseFigures:
    return DatabaseFigures(
        size_bytes=taken["size_bytes"],
        connections=taken["connections"],
        max_connections=taken["max_connections"],
        oldest_transaction=timedelta(seconds=taken["oldest_transaction"]),
        xmin_age=taken["xmin_age"],
        tables=tuple(
            TableFigures(
                table["name"], table["live"], table["dead"], seconds(table["vacuumed_ago"])
            )
            for table in tables
        ),
    )


def seconds(number: float | None) -> timedelta | None:
    """As a duration; a lease that still holds ended 0 seconds ago."""
    return None if number is None else timedelta(seconds=max(number, 0))
