"""Things that come at the same moment, from many callers, and are written at once.

A statement and its flush to disk cost nearly the same for one job as for ten. Whoever comes while
two others are being written waits for the end of one, and then goes together with all who came
meanwhile. Whoever comes alone waits for nobody.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.database.pool import COMMAND_TIMEOUT

Item = TypeVar("Item")
# Of jobs of at most 10 kB: a statement of a megabyte.
MOST_TOGETHER = 100
# While one is flushed to disk, another is on its way: neither the disk nor we wait for the other.
MOST_UNDER_WAY = 2
# What is under way has been given up by then, unless there is no connection either.
LONGEST_WAIT = COMMAND_TIMEOUT + 1.0


@dataclass(slots=True)
class QueuedItem(Generic[Item]):
    """An item, and whom to tell that it is written."""

    item: Item
    told: asyncio.Future[None]
    given_up: asyncio.TimerHandle
    # It was among some of which one could not be written.
    is_suspect: bool = False


class GroupCommit(Generic[Item]):
    """Writes items, alone or in lists of them; each caller hears of its own error alone."""

    def __init__(
        self, write: Callable[[list[Item]], Awaitable[None]], at_once: int = MOST_UNDER_WAY
    ) -> None:
        """`write` takes all of them or none, and so many lists at the same time."""
        self._write = write
        self._at_once = at_once
        self._waiting: deque[QueuedItem[Item]] = deque()
        self._under_way = 0
        self._writing: set[asyncio.Task[None]] = set()

    async def add(self, item: Item) -> None:
        """Written when this returns."""
        if self._under_way >= self._at_once:
            await self._wait(item)
            return
        self._under_way += 1
        try:
            await self._write([item])
        finally:
            self._go_on()

    def __len__(self) -> int:
        """How many wait for their turn."""
        return len(self._waiting)

    async def done(self) -> None:
        """Wait for what is being written for others."""
        while self._writing:
            await asyncio.wait(self._writing)

    async def _wait(self, item: Item) -> None:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        self._waiting.append(QueuedItem(item, told, loop.call_later(LONGEST_WAIT, give_up, told)))
        await told

    def _go_on(self) -> None:
        batch = self._next()
        if not batch:
            self._under_way -= 1
            return
        # In a task of its own, and in nobody's context: if one of the callers goes away, the
        # others still wait for it.
        writing = asyncio.get_running_loop().create_task(
            self._write_all([each.item for each in batch]), context=contextvars.Context()
        )
        self._writing.add(writing)
        writing.add_done_callback(partial(self._tell, batch))

    def _next(self) -> list[QueuedItem[Item]]:
        batch: list[QueuedItem[Item]] = []
        while self._waiting and len(batch) < MOST_TOGETHER:
            if batch and (self._waiting[0].is_suspect or batch[0].is_suspect):
                break
            waiting = self._waiting.popleft()
            # From here on it may be stored, and only the statement itself tells.
            waiting.given_up.cancel()
            if not waiting.told.done():
                batch.append(waiting)
        return batch

    async def _write_all(self, items: list[Item]) -> None:
        await self._write(items)

    def _tell(self, batch: list[QueuedItem[Item]], writing: asyncio.Task[None]) -> None:
        self._writing.discard(writing)
        error = None if writing.cancelled() else writing.exception()
        if error is not None and len(batch) > 1 and not isinstance(error, StoreUnavailable):
            # One of them is at fault, and only trying tells which.
            for each in reversed(batch):
                each.is_suspect = True
                self._waiting.appendleft(each)
        else:
            for each in batch:
                resolve_waiter(each.told, writing, error)
        self._go_on()


def give_up(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_exception(
            StoreUnavailable(
                "the database is busy with other jobs; nothing was stored: add it again"
            )
        )


def resolve_waiter(
    told: asyncio.Future[None], writing: asyncio.Task[None], error: BaseException | None
) -> None:
    if told.done():
        # Whoever asked has gone.
        return
    if writing.cancelled():
        told.cancel()
    elif error is not None:
        told.set_exception(error)
    else:
        told.set_result(None)
