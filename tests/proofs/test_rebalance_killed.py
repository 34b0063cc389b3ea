"""Servers die of kill -9 at any moment of a rebalance: all of its moves are there, or none."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from uuid import UUID

import httpx2 as httpx
import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.jobs.model import Definition
from evenbeat.core.ops.access import Role
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.placement.placer import OBSERVE, Placer
from evenbeat.store.balance import rebalance_plans
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes
from tests.support.processes import Api, Process

HERD, KILLS = 3_000, 12
PLACES = "select job_id, phase_s from evenbeat.placement order by job_id"

pytestmark = pytest.mark.proof


async def test_a_kill_at_any_moment_leaves_all_moves_or_none(
    database: Database, start: Callable[..., Process], client: Callable[..., Api]
) -> None:
    await nodes.open_lanes(database, ["echo"])
    jobs = Jobs(database, Registry(), Placer(database, OBSERVE))
    await jobs.add_many([Definition("echo", Timetable(parse_schedule("every 1d")))] * HERD)
    await jobs.close()
    chance, done = random.Random(7), 0
    for _ in range(KILLS):
        server = start("server", EVENBEAT_BALANCING="on")
        api = client(await server.ready(), Role.OPERATOR)
        before = await places(database)
        plan = (await api.post("/api/v1/scheduler/rebalance/preview", {"max_moves": 150})).json()
        applying = asyncio.ensure_future(
            api.post("/api/v1/scheduler/rebalance", {"plan_id": plan["plan_id"]})
        )
        await asyncio.sleep(chance.uniform(0, 0.4))
        server.kill()
        # An answer that was quicker than the kill is as good as none.
        with contextlib.suppress(httpx.TransportError):
            assert (await applying).status_code == 200
        summary = (await rebalance_plans.find_plan(database, UUID(plan["plan_id"]))).summary
        after = await places(database)
        moved = sum(after[job] != before[job] for job in before)
        assert moved == (plan["would_move"] if summary.applied_at else 0)
        done += summary.applied_at is not None
    assert 0 < done < KILLS, "some before, some after the commit"


async def places(database: Database) -> dict[int, int]:
    async with database.connection() as connection:
        return {row["job_id"]: row["phase_s"] for row in await connection.fetch(PLACES)}
