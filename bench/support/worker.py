"""A worker process of the benchmark: a node with one handler that does nothing.

    python worker.py URL CONCURRENCY

A payload with a time `t` in it makes the worker print how late the run started, in milliseconds.
"""

import asyncio
import sys
import time
from pathlib import Path

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import DONE, Outcome
from evenbeat.engine import process
from evenbeat.observe import log


class Noop:
    """Nothing, at once."""

    kind = "noop"

    def check(self, payload: object) -> None:
        """Any."""

    def run(self, context: RunContext) -> Outcome:
        sent_at = context.payload.get("t")
        if sent_at is not None:
            print((time.time() - sent_at) * 1000, flush=True)
        return DONE


async def work(stopping: asyncio.Event) -> None:
    url, concurrency = sys.argv[1:]
    settings = load(
        environ={},
        cwd=Path("/"),
        database_url=url,
        concurrency=int(concurrency),
        log_level="warning",
    )
    log.configure(settings)
    app = Evenbeat(settings)
    app.registry.add(Noop())
    async with app:
        await app.prepare_kinds()
        await app.run_node(stopping, lambda: print("joined", flush=True))


if __name__ == "__main__":
    process.run_until_signal(work)
