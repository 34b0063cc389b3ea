"""The clock of all processes: the database's, or in tests one that a test sets."""

import asyncio
import time
from datetime import datetime, timedelta

from evenbeat.core.errors import StoreUnavailable
from evenbeat.observe import log
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("database/clock")
WAKE_CHANNEL = "evenbeat_wake"
LONGEST_TRUST = 60.0
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


class DatabaseClock:
    """The database's time without a query: the last instant it returned, plus the time since.

    It is ahead of the database by the drift of a minute at most. A clock that a test sets stands
    still or leaps, so that it is asked every time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._instant: datetime | None = None
        self._instant_at = 0.0

    def set_time(self, instant: datetime) -> None:
        """Set it to the `:now` of a statement that PostgreSQL has just answered."""
        self._instant, self._instant_at = instant, time.monotonic()

    async def now(self) -> datetime:
        passed = time.monotonic() - self._instant_at
        if self._database.clock == "set" or self._instant is None or passed > LONGEST_TRUST:
            self.set_time(await now(self._database))
            passed = 0.0
        assert self._instant is not None  # noqa: S101 - just set
        return self._instant + timedelta(seconds=passed)


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
