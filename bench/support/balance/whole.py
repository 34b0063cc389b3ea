"""A rebalance as an operator sees it: planned, applied and taken back on a database."""

import asyncio
import resource
import time
from collections.abc import Awaitable
from typing import TypeVar

from bench.support.balance import fleets
from bench.support.server import fresh, server

from evenbeat.app import Evenbeat
from evenbeat.core.jobs.model import Definition
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.postgres import EmbeddedServer

SIZES = (1_000, 10_000, 100_000)
AT_ONCE = 10_000

Result = TypeVar("Result")


def measure() -> dict[str, dict[str, float]]:
    """CPU seconds of each step, jobs having been added at once without balancing: ours, without
    what the server spends. The memory is the most that this process has had so far."""
    found: dict[str, dict[str, float]] = {}
    steps = "".join(
        f"{name:>10}" for name in ("moves", "show, s", "preview", "apply", "undo", "MB")
    )
    print(f"\n{'jobs':>12}{steps}")
    with server() as running:
        for size in SIZES:
            figures = asyncio.run(measure_one(running, size))
            found[f"rebalance of {size} in a database"] = figures
            moves, *took = figures.values()
            print(f"{size:>12,}{moves:>10,.0f}" + "".join(f"{each:>10.2f}" for each in took))
    return found


async def measure_one(running: EmbeddedServer, size: int) -> dict[str, float]:
    url = await fresh(running, "balance")
    await fill(url, size)
    async with Evenbeat(database_url=url) as eb:
        _, show = await timed(eb.balance.view())
        preview, planning = await timed(eb.balance.preview())
        _, applying = await timed(eb.balance.apply(preview.plan.summary.id))
        _, undoing = await timed(eb.balance.undo())
    return {
        "moves": len(preview.plan.moves),
        "show": show,
        "preview": planning,
        "apply": applying,
        "undo": undoing,
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def fill(url: str, size: int) -> None:
    """The intervals of a fleet of crawls, all beginning at once."""
    intervals = fleets.scaled(size).interval
    jobs = [
        Definition("echo", Timetable(parse_schedule(f"every {seconds}s"))) for seconds in intervals
    ]
    async with Evenbeat(database_url=url, balancing="observe") as eb:
        await eb.prepare_kinds()
        for at in range(0, size, AT_ONCE):
            await eb.jobs.add_many(jobs[at : at + AT_ONCE])


async def timed(work: Awaitable[Result]) -> tuple[Result, float]:
    began = time.process_time()
    return await work, time.process_time() - began
