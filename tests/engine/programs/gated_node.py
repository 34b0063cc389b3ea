"""A node in a process of its own, whose handler `gated` ends when the process gets SIGUSR1."""

import asyncio
import os
import signal
from typing import Any

from evenbeat.app import Evenbeat
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done


class Gated:
    kind = "gated"

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    def check(self, payload: Any) -> None:
        """Any payload will do."""

    async def run(self, context: RunContext) -> Done:
        await self.gate.wait()
        return Done(result={"pid": os.getpid()})


async def main() -> None:
    stopping, handler, loop = asyncio.Event(), Gated(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGUSR1, handler.gate.set)
    async with Evenbeat() as eb:
        eb.registry.add(handler)
        await eb.run_node(stopping)


asyncio.run(main())
