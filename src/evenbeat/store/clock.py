"""The one clock: the database's, or in tests one that is set for every process at once."""

import time
from datetime import datetime, timedelta

from evenbeat.store.database import Database, Session
from evenbeat.store.statements import load

SQL = load("clock")
WAKE_CHANNEL = "evenbeat_wake"
LONGEST_TRUST = 60.0


async def now(session: Session) -> datetime:
    return await session.fetch_value(SQL["now"])


class Watch:
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


async def install(database: Database) -> None:
    """Make the clock that `set_to` moves; for databases of tests only."""
    async with database.transaction() as session:
        for step in ("create_clock_schema", "create_clock_table", "create_clock_function"):
            await session.execute(SQL[step])


async def set_to(database: Database, instant: datetime) -> None:
    """Move the set clock, and wake the nodes: what was a wait for them may be over."""
    async with database.transaction() as session:
        await session.execute(SQL["clear_clock"])
        await session.execute(SQL["set_clock"], instant=instant)
    await wake(database)
