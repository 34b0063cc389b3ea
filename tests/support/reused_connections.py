"""A loop and connections that outlive a test.

A connection that is new reads the catalogue and plans every statement anew: 40 ms of the server's
time, where most tests need five.
"""

import asyncio
import functools
from typing import Any

import asyncpg

from evenbeat.store.database.pool import Database

# What was planned for the tables of one test may not suit those of the next.
FORGET_PLANS = "discard plans"


class KeptLoop(asyncio.SelectorEventLoop):
    """Ends with its test like any other, with all tasks, and is new to the next one."""

    def close(self) -> None:
        """It is wanted again."""

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
def loop() -> KeptLoop:
    """That of this process."""
    return KeptLoop()


class LentDatabase(Database):
    """A database like any other, on connections that were there before it."""

    def __init__(self, url: str, connections: "Connections") -> None:
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


class Connections:
    """Those to the database of the tests, while no test has them."""

    def __init__(self) -> None:
        self._pool: Any = None

    def database(self, url: str) -> Database:
        """On these connections, if this is the loop: a test that is no coroutine has another."""
        is_kept = asyncio.get_running_loop() is loop()
        return LentDatabase(url, self) if is_kept else Database(url, clock="set")

    def take(self) -> Any:
        pool, self._pool = self._pool, None
        return pool

    async def give_back(self, pool: Any) -> None:
        try:
            await renew(pool)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            # Lost, or closed, as some tests want it.
            pool.terminate()
        else:
            self._pool = pool

    def end(self) -> None:
        """The loop goes with them."""
        if self._pool is not None:
            loop().run_until_complete(self._pool.close())
        loop().end()


async def renew(pool: Any) -> None:
    """Leave nothing of a test on its connections; a test that still has one keeps it."""
    if pool.get_idle_size() < pool.get_size():
        raise asyncpg.InterfaceError("a connection is in use")
    idle = [await pool.acquire() for _ in range(pool.get_idle_size())]
    for connection in idle:
        await connection.reset()
        await connection.execute(FORGET_PLANS)
        await pool.release(connection)
