"""What a node costs that has nothing to do."""

import asyncio
import os
from pathlib import Path

from bench.support.processes import program
from bench.support.server import fresh, joined

from evenbeat.postgres import EmbeddedServer

SECONDS = 8


async def measure(running: EmbeddedServer) -> dict[str, float]:
    url = await fresh(running, "bench_idle")
    async with program("worker.py", url, "100") as [worker]:
        await joined(url)
        await asyncio.sleep(2)
        before = cpu_seconds(worker.pid)
        await asyncio.sleep(SECONDS)
        spent = cpu_seconds(worker.pid) - before
        return {
            "idle node: RSS MB": resident(worker.pid),
            "idle node: CPU %": spent / SECONDS * 100,
        }


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
