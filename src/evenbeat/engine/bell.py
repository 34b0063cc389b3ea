"""The bell: wakes a loop before its pause is over.

The claimer's bell rings when a notification comes and when a slot becomes free. A notification
is only a hint: it may be lost, and behind a pooler it never comes. So every wait has a limit.
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

# A connection that only listens does not notice by itself that the network was cut.
ASK_EVERY = 10.0


class Bell(asyncio.Event):
    """An event that many ring and one loop waits for; it is cleared when the loop wakes."""

    # The same method: a bell is rung once for every run.
    ring = asyncio.Event.set

    async def wait_at_most(self, longest: timedelta) -> None:
        """Return when the bell rings, or after `longest`. A ring from before the call counts."""
        try:
            async with asyncio.timeout(max(longest.total_seconds(), 0)):
                await self.wait()
        except TimeoutError:
            return
        finally:
            self.clear()


async def listen_for_wakes(route: Route, bell: Bell) -> None:
    """Ring the bell at every notification, on a connection that never holds a transaction.

    Ends, by raising StoreUnavailable, only with the connection. Behind a pooler it does nothing:
    there, a notification goes to whichever client has the server connection that listened.
    """
    connection: Any = await connect(route)
    try:
        if route.is_pooled:
            log.get_logger().info(log.POLLING)
            await connection.close()
            await asyncio.Event().wait()
        closed = asyncio.Event()
        connection.add_termination_listener(ignore_arguments(closed.set))
        await connection.add_listener(clock.WAKE_CHANNEL, ignore_arguments(bell.ring))
        # Notifications from before this moment were not heard: the claimer looks for itself.
        bell.ring()
        while not await wait_for_event(closed, within=ASK_EVERY):
            await clock.now(Session(connection, "database"))
        raise StoreUnavailable("the connection that listens was closed")
    finally:
        connection.terminate()


def ignore_arguments(function: Callable[[], None]) -> Callable[..., None]:
    """A listener of the driver, which passes the connection and more."""

    def listener(*_: object) -> None:
        function()

    return listener


async def wait_for_event(event: asyncio.Event, *, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False
