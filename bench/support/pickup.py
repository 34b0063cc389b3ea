"""How long an idle node takes to start a job, from before the call that adds it."""

import asyncio
import statistics
import time
from pathlib import Path

from bench.support import peers
from bench.support.processes import program
from bench.support.server import fresh, joined

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.jobs.model import Definition
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.observe import log
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.ops import nodes

COUNT = 200
PAUSE = 0.03


async def measure(running: EmbeddedServer) -> dict[str, float]:
    return {**summary("evenbeat", await ours(running)), **summary("pgqueuer", await peer(running))}


async def ours(running: EmbeddedServer) -> list[float]:
    url = await fresh(running, "bench_pickup")
    settings = load(environ={}, cwd=Path("/"), database_url=url, log_level="error")
    log.configure(settings)
    late: list[float] = []
    async with program("worker.py", url, "100") as [worker], Evenbeat(settings) as app:
        await nodes.open_lanes(app.database, ["noop"])
        await joined(url)
        for _ in range(COUNT):
            now = Timetable(parse_schedule("now"))
            await app.jobs.add(Definition(kind="noop", timetable=now, payload={"t": time.time()}))
            late.append(float(await worker.line()))
            await asyncio.sleep(PAUSE)
    return late


async def peer(running: EmbeddedServer) -> list[float]:
    url = await fresh(running, "bench_peer", migrated=False)
    python = peers.python()
    async with program("pgqueuer_peer.py", url, "pickup", str(COUNT), python=python) as [working]:
        return [float(await working.line()) for _ in range(COUNT)]


def summary(name: str, late: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(late, n=100)
    return {f"pick-up ms p50: {name}": cuts[49], f"pick-up ms p99: {name}": cuts[98]}
