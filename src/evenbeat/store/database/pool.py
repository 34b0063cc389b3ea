"""The connection pool: runs named statements, turns lost connections into StoreUnavailable."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.database.connection_errors import (
    UNAVAILABLE_ERRORS,
    breaks_all_connections,
    breaks_connection,
    store_unavailable,
    translate_driver_errors,
)
from evenbeat.store.database.route import CONNECT_TIMEOUT, SQL, Route, driver
from evenbeat.store.database.statements import Statement, load_statements

SAVEPOINTS = load_statements("database/savepoints")

# The server ends a statement first, where it can: then its outcome is known.
COMMAND_TIMEOUT = 5.0
SESSION_SETTINGS = {
    "application_name": "evenbeat",
    "statement_timeout": "4500ms",
    "lock_timeout": "4s",
    "idle_in_transaction_session_timeout": "60s",
    # Whoever waited for a lock must see what was written meanwhile, whatever the database says.
    "default_transaction_isolation": "read committed",
    "timezone": "UTC",
    "jit": "off",
}
# For the engine's few statements, which all go by key. Planned anew each time, a claim spends
# 1.2 ms on that; planned once with statistics taken at rest, a completion was seen to read the
# whole table (1,500 ms instead of 15), and these settings leave it no such plan.
ENGINE_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_parallel_workers_per_gather": "0",
}
PATIENT_SETTINGS = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    # Whoever reads what comes of it may be slow: a pager, say.
    "idle_in_transaction_session_timeout": "10min",
}


async def connect(to: str | Route, *, is_patient: bool = False) -> Any:
    """One connection with our limits and codecs; wrong credentials are StoreUnavailable too.

    A patient one waits as long as it takes: for migrations, whose work has no bound.
    """
    route = Route(to) if isinstance(to, str) else to
    limits = SESSION_SETTINGS | (PATIENT_SETTINGS if is_patient else {})
    return await route.connect(limits, command_timeout=None if is_patient else COMMAND_TIMEOUT)


@contextlib.asynccontextmanager
async def open_read_snapshot(to: str | Route) -> AsyncGenerator[Any]:
    """One moment of the whole database, however long it takes to look at it.

    On a connection of its own, that has all the time it needs and writes nothing.
    """
    connection = await connect(to, is_patient=True)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield connection
    finally:
        await connection.close()


def terminate_connection(connection: Any) -> None:
    """End it here and now; the pool has let go of one that was lost by itself."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


async def skip_reset(connection: object) -> None:
    """Nothing of ours outlives its transaction, so that there is nothing to undo.

    The driver's own way of undoing costs a round trip after every statement.
    """


class Session:
    """Named statements on one connection, or on any connection of a pool."""

    def __init__(self, runner: Any, clock: str) -> None:
        self._runner: Any = runner
        self._clock = clock

    async def fetch(self, statement: Statement, **given: Any) -> list[asyncpg.Record]:
        text, values = statement.text(self._clock), statement.arguments(given)
        try:
            return await self._runner.fetch(text, *values)
        except UNAVAILABLE_ERRORS as error:
            raise store_unavailable(error) from error

    async def fetch_row(self, statement: Statement, **given: Any) -> asyncpg.Record | None:
        text, values = statement.text(self._clock), statement.arguments(given)
        try:
            return await self._runner.fetchrow(text, *values)
        except UNAVAILABLE_ERRORS as error:
            raise store_unavailable(error) from error

    async def fetch_value(self, statement: Statement, **given: Any) -> Any:
        row = await self.fetch_row(statement, **given)
        return None if row is None else row[0]

    async def execute(self, statement: Statement, **given: Any) -> int:
        """Run it and return how many rows it changed."""
        text, values = statement.text(self._clock), statement.arguments(given)
        try:
            status: str = await self._runner.execute(text, *values)
        except UNAVAILABLE_ERRORS as error:
            raise store_unavailable(error) from error
        count = status.rpartition(" ")[2]
        return int(count) if count.isdecimal() else 0


@contextlib.asynccontextmanager
async def transaction_on(connection: Any, clock: str) -> AsyncGenerator[Session]:
    """A transaction on a connection that is in none."""
    with translate_driver_errors():
        # Named here as well: behind a pooler our settings come too late for that.
        transaction = connection.transaction(isolation="read_committed")
        await transaction.start()
    try:
        yield Session(connection, clock)
    except BaseException as error:
        # A lost connection rolls back by itself; what went wrong first is what counts.
        if not breaks_connection(error):
            with contextlib.suppress(*UNAVAILABLE_ERRORS):
                await transaction.rollback()
        raise
    with translate_driver_errors():
        await transaction.commit()


@contextlib.asynccontextmanager
async def savepoint_on(connection: Any, clock: str) -> AsyncGenerator[Session]:
    """A part of the transaction that is under way, however it was begun: what fails undoes no
    more than the part."""
    session = Session(connection, clock)
    await session.execute(SAVEPOINTS["begin_part"])
    try:
        yield session
    except BaseException:
        with contextlib.suppress(StoreUnavailable):
            await session.execute(SAVEPOINTS["undo_part"])
        raise
    await session.execute(SAVEPOINTS["keep_part"])


class Database(Session):
    """A pool of connections. `open` it before use; every statement is one transaction."""

    def __init__(
        self,
        url: str,
        *,
        clock: str = "database",
        pool_size: int = 10,
        is_for_engine: bool = False,
        pooler: str = "auto",
    ) -> None:
        self.url = url
        self.clock = clock
        self.route = Route(url, pooler)
        self._pool_size = pool_size
        self._settings = SESSION_SETTINGS | (ENGINE_SETTINGS if is_for_engine else {})
        super().__init__(None, clock)

    async def open(self) -> None:
        # One connection first: a wrong URL is told at once and in one line.
        await (await connect(self.route)).close()
        with translate_driver_errors():
            self._runner = await driver.create_pool(
                self.url,
                min_size=1,
                max_size=self._pool_size,
                connect=self._connect,
                reset=skip_reset,
            )

    async def close(self) -> None:
        if self._runner is None:
            return
        try:
            await asyncio.wait_for(self._runner.close(), CONNECT_TIMEOUT)
        except TimeoutError:
            self._runner.terminate()
        self._runner = None

    @property
    def is_open(self) -> bool:
        return self._runner is not None

    async def fetch(self, statement: Statement, **given: Any) -> list[asyncpg.Record]:
        async with self._session() as session:
            return await session.fetch(statement, **given)

    async def fetch_row(self, statement: Statement, **given: Any) -> asyncpg.Record | None:
        async with self._session() as session:
            return await session.fetch_row(statement, **given)

    async def execute(self, statement: Statement, **given: Any) -> int:
        async with self._session() as session:
            return await session.execute(statement, **given)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Session]:
        async with (
            self.connection() as connection,
            transaction_on(connection, self.clock) as session,
        ):
            if self.route.is_pooled:
                names, values = list(self._settings), list(self._settings.values())
                await session.execute(SQL["apply_settings"], names=names, values=values)
            yield session

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncGenerator[Any]:
        # An idle connection is there at once, and a timer would cost 40 µs for each statement.
        longest = None if self._runner.get_idle_size() else CONNECT_TIMEOUT
        try:
            connection = await self._runner.acquire(timeout=longest)
        except UNAVAILABLE_ERRORS as error:
            raise store_unavailable(error) from error
        try:
            yield connection
        except (StoreUnavailable, *UNAVAILABLE_ERRORS) as error:
            if breaks_connection(error):
                # One that was closed under us has left the pool already, and says so.
                with contextlib.suppress(asyncpg.InterfaceError):
                    connection.terminate()
            if breaks_all_connections(error):
                await self._runner.expire_connections()
            raise
        finally:
            await self._runner.release(connection)

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncGenerator[Session]:
        """For one statement, which is a transaction by itself.

        Behind a pooler it needs one around it, that brings our settings along.
        """
        if self.route.is_pooled:
            async with self.transaction() as session:
                yield session
        else:
            async with self.connection() as connection:
                yield Session(connection, self.clock)

    async def _connect(self, *_: object, **__: object) -> Any:
        return await self.route.connect(self._settings, command_timeout=COMMAND_TIMEOUT)
