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
from evenbeat.observe import log
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Session, connect
from evenbeat.store.database.route import Route

# A connection that only listens never learns by itself that the network was cut.
ASK_EVERY = 10.0


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


async def listen_for_wakes(route: Route, bell: Bell) -> None:
    """Ring the bell at every notification, on a connection that never holds a transaction.

    Ends, by raising StoreUnavailable, only with the connection. Behind a pooler there is nothing
    to be heard: a notification goes to whoever has the server that once listened.
    """
    connection: Any = await connect(route)
    try:
        if route.is_pooled:
            log.get_logger().info(log.POLLING)
            await connection.close()
            await asyncio.Event().wait()
        closed = asyncio.Event()
        connection.add_termination_listener(closed_by(closed))
        await connection.add_listener(clock.WAKE_CHANNEL, bell.ring)
        # Whatever was announced while nobody listened is found by looking.
        bell.ring()
        while not await wait_for_event(closed, within=ASK_EVERY):
            await clock.now(Session(connection, "database"))
        raise StoreUnavailable("the connection that listens was closed")
    finally:
        connection.terminate()


async def wait_for_event(event: asyncio.Event, *, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False


def closed_by(closed: asyncio.Event) -> Callable[[object], None]:
    def close(_: object) -> None:
        closed.set()

    return close
