"""The scribe: writes down what runs say, for all runs of a node together."""

import asyncio
from collections import deque

from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.run_log import LogLine
from evenbeat.observe import log
from evenbeat.store import run_logs
from evenbeat.store.database import Database

LARGEST_BATCH = 1000
# While the database is away, so many lines wait for it, and others are lost.
MOST_WAITING = 20_000


class Scribe:
    """Lines are written in the order in which they were said."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[LogLine] = deque(maxlen=MOST_WAITING)
        # One batch at a time: two at once could come in either order.
        self._pen = asyncio.Lock()

    def take(self, line: LogLine) -> None:
        """From any thread: a deque does without a lock."""
        self._waiting.append(line)

    async def turn(self) -> None:
        """Write all that has been said by now."""
        async with self._pen:
            for _ in range(-(-len(self._waiting) // LARGEST_BATCH)):
                await self._write()

    async def write(self) -> None:
        """The same at the end of a run, which must not fail for it: what it did is what counts."""
        try:
            await self.turn()
        except StoreUnavailable as error:
            log.loop_failed("scribe", error)

    async def _write(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), LARGEST_BATCH))]
        try:
            await run_logs.append(self._database, batch)
        except BaseException:
            self._waiting.extendleft(reversed(batch))
            raise
