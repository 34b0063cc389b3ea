"""An event loop and connections that are reused from test to test.

A new connection reads the catalogue and plans every statement anew: 40 ms of the server's time,
where most tests need five.
"""

import asyncio
import functools
from typing import Any

import asyncpg

from evenbeat.store.database.pool import Database

# Plans for the tables of one test may not suit those of the next.
FORGET_PLANS = "discard plans"


class ReusedLoop(asyncio.SelectorEventLoop):
    """Ends all tasks with its test, and can be used again by the next one."""

    def close(self) -> None:
        """Do nothing: the next test uses it."""

    async def shutdown_asyncgens(self) -> None:
        await super().shutdown_asyncgens()
        self._asyncgens_shutdown_called = False

    async def shutdown_default_executor(self, *limit: Any) -> None:
        await super().shutdown_default_executor(*limit)
        self._executor_shutdown_called = False
        self._default_executor = None

    def end(self) -> None:
        super().close()


@functools.cache
def loop() -> ReusedLoop:
    """One for this process."""
    return ReusedLoop()


class ReusedDatabase(Database):
    """A database on connections of earlier tests."""

    def __init__(self, url: str, connections: "ReusedConnections") -> None:
        super().__init__(url, clock="set")
        self._connections = connections

    async def open(self) -> None:
        self._runner = self._connections.take()
        if self._runner is None:
            await super().open()

    async def close(self) -> None:
        pool, self._runner = self._runner, None
        if pool is not None:
            await self._connections.give_back(pool)


class ReusedConnections:
    """Holds the pool of connections between two tests."""

    def __init__(self) -> None:
        self._pool: Any = None

    def database(self, url: str) -> Database:
        """A database on the reused connections; on new ones if the test runs on another loop."""
        is_reused = asyncio.get_running_loop() is loop()
        return ReusedDatabase(url, self) if is_reused else Database(url, clock="set")

    def take(self) -> Any:
        pool, self._pool = self._pool, None
        return pool

    async def give_back(self, pool: Any) -> None:
        try:
            await renew(pool)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            # Some tests end or keep connections on purpose.
            pool.terminate()
        else:
            self._pool = pool

    def end(self) -> None:
        """Close the connections and the loop."""
        if self._pool is not None:
            loop().run_until_complete(self._pool.close())
        loop().end()


async def renew(pool: Any) -> None:
    """Reset all connections. Raises InterfaceError if the test still uses one."""
    if pool.get_idle_size() < pool.get_size():
        raise asyncpg.InterfaceError("a connection is in use")
    idle = [await pool.acquire() for _ in range(pool.get_idle_size())]
    for connection in idle:
        await connection.reset()
        await connection.execute(FORGET_PLANS)
        await pool.release(connection)
