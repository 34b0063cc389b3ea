"""The bell: wakes the claimer when a job may have become due.

It rings when a notification comes, when a place becomes free, and when a wait is over. A
notification is only a hint: it may be lost or never come (behind a pooler), and the timer is
always there.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.clock import WAKE_CHANNEL
from evenbeat.store.database import connect


class Bell:
    """Rung by anyone, heard by one."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self, *_: object) -> None:
        self._rung.set()

    async def wait(self, longest: timedelta) -> None:
        """Return when it is rung, or after `longest`; what rang before counts once."""
        try:
            async with asyncio.timeout(max(longest.total_seconds(), 0)):
                await self._rung.wait()
        except TimeoutError:
            return
        finally:
            self._rung.clear()


async def listen(url: str, bell: Bell) -> None:
    """Ring the bell at every notification, on a connection that never holds a transaction.

    Ends, by raising StoreUnavailable, only with the connection.
    """
    connection: Any = await connect(url)
    try:
        closed = asyncio.Event()
        connection.add_termination_listener(closed_by(closed))
        await connection.add_listener(WAKE_CHANNEL, bell.ring)
        # Whatever was announced while nobody listened is found by looking.
        bell.ring()
        await closed.wait()
        raise StoreUnavailable("the connection that listens was closed")
    finally:
        connection.terminate()


def closed_by(closed: asyncio.Event) -> Callable[[object], None]:
    def close(_: object) -> None:
        closed.set()

    return close
