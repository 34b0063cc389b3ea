"""Who empties the database before a test, and looks for breaches after it.

It stays from test to test: to connect, and to have all rules planned anew, took ten times as long
as to look.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
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
LASTING = {
    # Not ours: tests that end our connections do not mean this one.
    "application_name": "caretaker",
    "plan_cache_mode": "force_generic_plan",
}
# Such plans were made while there was nothing: a history of thousands needs plans of its own.
FEW = 100
IS_LARGE = f"""
    select exists (select from evenbeat.pulse offset {FEW})
        or exists (select from evenbeat.run offset {FEW})
"""


class Kept(asyncpg.Connection):
    """A connection that those who close it leave open."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's
        """It is wanted again."""


class KeptRoute(Route):
    """Leads to one connection, whoever asks; to a new one where somebody has ended it."""

    kept: Any = None

    async def connect(
        self, settings: Mapping[str, str], *, command_timeout: float | None = None
    ) -> Any:
        if self.kept is None or self.kept.is_closed():
            lasting = {**settings, **LASTING}
            self.kept = await super().connect(lasting, command_timeout=command_timeout)
        return self.kept

    async def _dial(self, **options: Any) -> Any:
        # All rules at once are longer than what stays prepared by default.
        return await super()._dial(**options, connection_class=Kept, max_cacheable_statement_size=0)

    async def leave(self) -> None:
        if self.kept is not None:
            await asyncpg.Connection.close(self.kept)


class Caretaker:
    """Has a loop of its own, and is asked while those of the tests stand still."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, clock="set")
        self._database.route = self._route = KeptRoute(url)
        self._loop = asyncio.new_event_loop()

    def prepare(self, instant: datetime) -> None:
        """Leave the database empty, and its clock at this instant."""

        async def act() -> None:
            connection = await self._connect()
            await databases.sweep(connection)
            session = Session(connection, "set")
            await session.execute(clocks.SQL["clear_clock"])
            await session.execute(clocks.SQL["set_clock"], instant=instant)

        self._do(act)

    def breaches(self, database: Database) -> list[str]:
        """What `evenbeat verify` finds in it."""

        async def act() -> list[str]:
            is_ours = database.url == self._database.url
            is_small = is_ours and not await (await self._connect()).fetchval(IS_LARGE)
            found = await verify(self._database if is_small else database)
            return [str(breach) for breach in found]

        return self._do(act)

    def broken(self, rules: Mapping[str, str]) -> dict[str, list[Any]]:
        """The rules that are not true any more, each with what its query finds."""

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
            # A test has thrown everybody out: once more, by a new connection.
            self._loop.run_until_complete(self._route.leave())
            return self._loop.run_until_complete(act())
