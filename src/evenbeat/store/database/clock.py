"""The one clock: the database's, or in tests one that is set for every process at once."""

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
# The longest `check_interval`: what is due later than that is found without being told of.
SOON = timedelta(seconds=10)
# A few milliseconds late for those who come at once, and their commits go side by side.
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
    """The database's time without asking for it: the last instant it told, plus what has passed.

    Never ahead of the database by more than the drift of a minute, since what it told was true
    when it was told. A clock that is set stands still or leaps, and is asked every time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._told: datetime | None = None
        self._told_at = 0.0

    def hear(self, instant: datetime) -> None:
        """Take note of an instant that a statement has just come back with."""
        self._told, self._told_at = instant, time.monotonic()

    async def now(self) -> datetime:
        passed = time.monotonic() - self._told_at
        if self._database.clock == "set" or self._told is None or passed > LONGEST_TRUST:
            self.hear(await now(self._database))
            passed = 0.0
        assert self._told is not None  # noqa: S101 - just heard
        return self._told + timedelta(seconds=passed)


async def wake(session: Session) -> None:
    """Tell every node to look for due jobs."""
    await session.execute(SQL["wake"])


class Waker:
    """Wakes the nodes soon, once for all who asked meanwhile.

    Nobody waits for it, since what it brings is a hint: it is the one task that belongs to no
    node. There is one at a time, and whoever closes the database first lets it be `done`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_asked = False
        self._waking: asyncio.Task[None] | None = None

    def wake_soon(self) -> None:
        self._is_asked = True
        if self._waking is None or self._waking.done():
            self._waking = asyncio.get_running_loop().create_task(self._wake())

    async def done(self) -> None:
        if self._waking is not None:
            await self._waking

    async def _wake(self) -> None:
        while self._is_asked:
            await asyncio.sleep(PAUSE)
            # Whoever asks from here on may have committed too late for this one.
            self._is_asked = False
            try:
                if self._database.is_open:
                    await wake(self._database)
            except StoreUnavailable as error:
                log.get_logger().warning(log.LOOP_FAILED, loop="waker", error=str(error))


async def install_test_clock(database: Database) -> None:
    """Make the clock that `set_to` moves; for databases of tests only."""
    async with database.transaction() as session:
        for step in INSTALLATION:
            await session.execute(SQL[step])


async def set_test_clock(database: Database, instant: datetime) -> None:
    """Move the set clock, and wake the nodes: what was a wait for them may be over."""
    async with database.transaction() as session:
        await session.execute(SQL["clear_clock"])
        await session.execute(SQL["set_clock"], instant=instant)
    await wake(database)
