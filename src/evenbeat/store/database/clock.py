"""The clock of all processes: the database's, or in tests one that a test sets."""

import asyncio
from datetime import datetime, timedelta

from evenbeat.core.errors import StoreUnavailable
from evenbeat.observe import log
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("database/clock")
WAKE_CHANNEL = "evenbeat_wake"
# The longest `check_interval`: a node finds a job that is due later without being woken.
SOON = timedelta(seconds=10)
# Seconds. Jobs that are added together wake the nodes once, and their commits run side by side.
PAUSE = 0.005
INSTALLATION = (
    "create_clock_schema",
    "create_clock_table",
    "create_clock_function",
    "replace_clock_of_sql",
)


async def now(session: Session) -> datetime:
    return await session.fetch_value(SQL["now"])


async def wake(session: Session) -> None:
    """Make every node look for due jobs."""
    await session.execute(SQL["wake"])


class Waker:
    """Wakes the nodes soon: once for all jobs that were added in the last few milliseconds.

    The caller does not wait for it, since waking is only a hint. There is one task at a time.
    `close` waits for it, and must be called before the database is closed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_asked = False
        self._waking: asyncio.Task[None] | None = None

    def wake_soon(self) -> None:
        self._is_asked = True
        if self._waking is None or self._waking.done():
            self._waking = asyncio.get_running_loop().create_task(self._wake())

    async def close(self) -> None:
        if self._waking is not None:
            await self._waking

    async def _wake(self) -> None:
        while self._is_asked:
            await asyncio.sleep(PAUSE)
            # A job that asks from here on may commit after this wake: it needs another one.
            self._is_asked = False
            try:
                if self._database.is_open:
                    await wake(self._database)
            except StoreUnavailable as error:
                log.get_logger().warning(log.LOOP_FAILED, loop="waker", error=str(error))


async def install_test_clock(database: Database) -> None:
    """Install the clock that `set_test_clock` moves; for databases of tests only."""
    async with database.transaction() as session:
        for step in INSTALLATION:
            await session.execute(SQL[step])


async def set_test_clock(database: Database, instant: datetime) -> None:
    """Set the test clock and wake the nodes, for which a job may be due now."""
    async with database.transaction() as session:
        await session.execute(SQL["clear_clock"])
        await session.execute(SQL["set_clock"], instant=instant)
    await wake(database)
