"""Empties the database before a test, and checks it for breaches after it.

The connection is reused for all tests: connecting and planning all rules took ten times as long
as checking them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import asyncpg

from evenbeat.control.ops.verify import verify
from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.database import clock as clocks
from evenbeat.store.database.connection_errors import UNAVAILABLE_ERRORS
from evenbeat.store.database.pool import Database, Session, connect
from evenbeat.store.database.route import Route
from tests.support import databases

T = TypeVar("T")
CONNECTION_SETTINGS = {
    # Another name than Evenbeat's: tests that end Evenbeat's connections must not end this one.
    "application_name": "database_reset",
    "plan_cache_mode": "force_generic_plan",
}
# The reused plans suit small tables: with more rows than this, the rules are planned anew.
FEW = 100
IS_LARGE = f"""
    select exists (select from evenbeat.pulse offset {FEW})
        or exists (select from evenbeat.run offset {FEW})
"""


class UnclosedConnection(asyncpg.Connection):
    """A connection that stays open when it is closed."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's
        """Do nothing: the next test uses it."""


class ReusedRoute(Route):
    """Always gives the same connection; a new one only if a test has ended it."""

    kept: Any = None

    async def connect(
        self, settings: Mapping[str, str], *, command_timeout: float | None = None
    ) -> Any:
        if self.kept is None or self.kept.is_closed():
            reused = {**settings, **CONNECTION_SETTINGS}
            self.kept = await super().connect(reused, command_timeout=command_timeout)
        return self.kept

    async def _dial(self, **options: Any) -> Any:
        # 0: no limit. The query of all rules is longer than what asyncpg caches by default.
        return await super()._dial(
            **options, connection_class=UnclosedConnection, max_cacheable_statement_size=0
        )

    async def leave(self) -> None:
        if self.kept is not None:
            # A test may have ended the connection after its last use.
            with suppress(*UNAVAILABLE_ERRORS):
                await asyncpg.Connection.close(self.kept)


class DatabaseReset:
    """Resets and checks the database on its own event loop, while the test's is not running."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, clock="set")
        self._database.route = self._route = ReusedRoute(url)
        self._loop = asyncio.new_event_loop()

    def prepare(self, instant: datetime) -> None:
        """Empty the database, and set its clock to this instant."""

        async def act() -> None:
            connection = await self._connect()
            await databases.sweep(connection)
            session = Session(connection, "set")
            await session.execute(clocks.SQL["clear_clock"])
            await session.execute(clocks.SQL["set_clock"], instant=instant)

        self._do(act)

    def breaches(self, database: Database) -> list[str]:
        """What `evenbeat verify` finds in the database."""

        async def act() -> list[str]:
            is_ours = database.url == self._database.url
            is_small = is_ours and not await (await self._connect()).fetchval(IS_LARGE)
            found = await verify(self._database if is_small else database)
            return [str(breach) for breach in found]

        return self._do(act)

    def broken(self, rules: Mapping[str, str]) -> dict[str, list[Any]]:
        """The rules that are broken, each with the rows that its query finds."""

        async def act() -> dict[str, list[Any]]:
            connection = await self._connect()
            found = {rule: await connection.fetch(query) for rule, query in rules.items()}
            return {rule: rows for rule, rows in found.items() if rows}

        return self._do(act)

    def leave(self) -> None:
        self._loop.run_until_complete(self._route.leave())
        self._loop.close()

    async def _connect(self) -> Any:
        return await connect(self._route, is_patient=True)

    def _do(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return self._loop.run_until_complete(act())
        except (StoreUnavailable, *UNAVAILABLE_ERRORS):
            # A test has ended all connections: once more, with a new one.
            self._loop.run_until_complete(self._route.leave())
            return self._loop.run_until_complete(act())
