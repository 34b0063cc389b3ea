"""The one clock: the database's, or in tests one that is set for every process at once."""

from datetime import datetime

from evenbeat.store.database import Database, Session
from evenbeat.store.statements import load

SQL = load("clock")
WAKE_CHANNEL = "evenbeat_wake"


async def now(session: Session) -> datetime:
    return await session.fetch_value(SQL["now"])


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
