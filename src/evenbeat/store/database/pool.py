"""The connection pool: runs named statements, and turns lost connections into StoreUnavailable."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterable
from datetime import datetime, timedelta
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
from evenbeat.store.database.statements import Statement, load_statements, number_parameters

SAVEPOINTS = load_statements("database/savepoints")
CLOCK = load_statements("database/clock")

# Seconds for which a process trusts its own measure of the time since the last statement.
LONGEST_TRUST = 60.0

# Longer than the statement_timeout of the server: if the server ends a statement, its outcome is
# known.
COMMAND_TIMEOUT = 5.0
SESSION_SETTINGS = {
    "application_name": "evenbeat",
    "statement_timeout": "4500ms",
    "lock_timeout": "4s",
    "idle_in_transaction_session_timeout": "60s",
    # A statement that waited for a lock must see what was written meanwhile. The database may have
    # another default.
    "default_transaction_isolation": "read committed",
    "timezone": "UTC",
    "jit": "off",
}
# For the few statements of the engine, which all use an index. Planning a claim each time costs
# 1.2 ms. A generic plan that was made while the tables were empty let a completion read the whole
# table (1,500 ms instead of 15): these settings forbid such a plan.
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
    # The reader of the result may be slow: a person with a pager, for example.
    "idle_in_transaction_session_timeout": "10min",
}


async def connect(to: str | Route, *, is_patient: bool = False) -> Any:
    """One connection with our settings and codecs; wrong credentials are StoreUnavailable too.

    A patient connection has no timeouts: for migrations, whose work has no bound.
    """
    route = Route(to) if isinstance(to, str) else to
    limits = SESSION_SETTINGS | (PATIENT_SETTINGS if is_patient else {})
    return await route.connect(limits, command_timeout=None if is_patient else COMMAND_TIMEOUT)


@contextlib.asynccontextmanager
async def open_read_snapshot(to: str | Route) -> AsyncGenerator[Any]:
    """A connection that sees the whole database at one moment, without timeouts and read-only."""
    connection = await connect(to, is_patient=True)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield connection
    finally:
        await connection.close()


def terminate_connection(connection: Any) -> None:
    """End the connection at once. The pool has already released one that was lost."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


async def skip_reset(connection: object) -> None:
    """Do nothing: nothing that we set outlives its transaction.

    The driver's own reset costs a round trip after every statement.
    """


def order_values(statement: Statement, given: dict[str, Any]) -> list[Any]:
    """The given values in the order of their numbers. A missing or unknown one is a bug."""
    if given.keys() != set(statement.parameters):
        odd = sorted(given.keys() ^ set(statement.parameters))
        raise TypeError(f"statement {statement.name}: parameters missing or unknown: {odd}")
    return [given[name] for name in statement.parameters]


def drop_all_nulls(values: Iterable[Any]) -> list[Any]:
    """A column for a statement that unnests arrays: empty if each value is None, since unnest pads
    with nulls."""
    made = list(values)
    return [] if made.count(None) == len(made) else made


class Session:
    """Named statements on one connection, or on any connection of a pool."""

    def __init__(self, runner: Any, clock: str) -> None:
        self._runner: Any = runner
        self._clock = clock

    async def fetch(self, statement: Statement, **given: Any) -> list[asyncpg.Record]:
        text = number_parameters(statement, self._clock)
        values = order_values(statement, given)
        try:
            return await self._runner.fetch(text, *values)
        except UNAVAILABLE_ERRORS as error:
            raise store_unavailable(error) from error

    async def fetch_row(self, statement: Statement, **given: Any) -> asyncpg.Record | None:
        text = number_parameters(statement, self._clock)
        values = order_values(statement, given)
        try:
            return await self._runner.fetchrow(text, *values)
        except UNAVAILABLE_ERRORS as error:
            raise store_unavailable(error) from error

    async def fetch_value(self, statement: Statement, **given: Any) -> Any:
        row = await self.fetch_row(statement, **given)
        return None if row is None else row[0]

    async def execute(self, statement: Statement, **given: Any) -> int:
        """Run it and return how many rows it changed."""
        text = number_parameters(statement, self._clock)
        values = order_values(statement, given)
        try:
            status: str = await self._runner.execute(text, *values)
        except UNAVAILABLE_ERRORS as error:
            raise store_unavailable(error) from error
        count = status.rpartition(" ")[2]
        return int(count) if count.isdecimal() else 0


@contextlib.asynccontextmanager
async def transaction_on(connection: Any, clock: str) -> AsyncGenerator[Session]:
    """A transaction on a connection that is in none."""
    # Named here because a pooler applies our settings only after the transaction has begun.
    transaction = connection.transaction(isolation="read_committed")
    try:
        await transaction.start()
    except UNAVAILABLE_ERRORS as error:
        raise store_unavailable(error) from error
    try:
        yield Session(connection, clock)
    except BaseException as error:
        # The server rolls back a lost connection. The first error is the one to raise.
        if not breaks_connection(error):
            with contextlib.suppress(*UNAVAILABLE_ERRORS):
                await transaction.rollback()
        raise
    try:
        await transaction.commit()
    except UNAVAILABLE_ERRORS as error:
        raise store_unavailable(error) from error


@contextlib.asynccontextmanager
async def savepoint_on(connection: Any, clock: str) -> AsyncGenerator[Session]:
    """A part of a transaction that has begun already. If it fails, only the part is rolled back."""
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
        # One connection first: a wrong URL is reported at once and in one line.
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
                # A connection that was closed has left the pool, and raises InterfaceError.
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

        Behind a pooler it needs a transaction around it, which applies our settings.
        """
        if self.route.is_pooled:
            async with self.transaction() as session:
                yield session
        else:
            async with self.connection() as connection:
                yield Session(connection, self.clock)

    async def _connect(self, *_: object, **__: object) -> Any:
        return await self.route.connect(self._settings, command_timeout=COMMAND_TIMEOUT)


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
            self.set_time(await self._database.fetch_value(CLOCK["now"]))
            passed = 0.0
        assert self._instant is not None  # noqa: S101 - just set
        return self._instant + timedelta(seconds=passed)
