"""A node with a handler that does what the payload says, and logs as the settings say."""

import asyncio
import signal
from typing import Any

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done, Failed, Outcome
from evenbeat.observe import log, traces


class Crawl:
    """Crawls nothing, and returns the figures of its payload."""

    kind = "crawl"

    def check(self, payload: Any) -> None:
        """Any payload will do."""

    async def run(self, context: RunContext) -> Outcome:
        match context.payload:
            case {"items": int(items)}:
                return Done(items_crawled=items)
            case {"error": str(error)}:
                return Failed(error)
            case _:
                await asyncio.Event().wait()
                return Done()


async def main() -> None:
    settings = load()
    log.configure(settings)
    provider = traces.configure()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    app = Evenbeat(settings)
    app.registry.add(Crawl())
    async with app:
        await app.prepare_kinds()
        await app.run_node(stopping)
    if provider is not None:
        provider.shutdown()


asyncio.run(main())
