"""The connection pool: runs named statements, turns lost connections into StoreUnavailable."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import orjson

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.statements import Statement

# asyncpg is only half typed: what is asked of it goes through a name that says so.
driver: Any = asyncpg

# It has no TCP keepalive options: a cut network is noticed by these limits alone.
CONNECT_TIMEOUT = 5.0
COMMAND_TIMEOUT = 30.0
SESSION = {
    "application_name": "evenbeat",
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "jit": "off",
}
# For the engine's few statements, which all go by key. Planned anew each time, a claim spends
# 1.2 ms on that; planned once with statistics taken at rest, a completion was seen to read the
# whole table (1,500 ms instead of 15), and these settings leave it no such plan.
ENGINE = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_parallel_workers_per_gather": "0",
}
PATIENT = {"statement_timeout": "0", "lock_timeout": "0"}

UNAVAILABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DiskFullError,
)


@contextlib.contextmanager
def availability() -> Generator[None]:
    """Say StoreUnavailable where the driver says any of a dozen things."""
    try:
        yield
    except UNAVAILABLE as error:
        raise StoreUnavailable(f"the database does not answer: {reason(error)}") from error


def reason(error: Exception) -> str:
    """What the driver says, but for what it says about itself after a connection was lost."""
    is_about_itself = isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError)
    if is_about_itself and not isinstance(error, ValueError):
        return "the connection was lost"
    return str(error) or "timed out"


def place_of(url: str) -> str:
    """` at HOST:PORT`, or nothing where a stray character might make a password look like one."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    if not place or "@" in parts.path + parts.query + parts.fragment:
        return ""
    return f" at {place}" if ":" in place.rpartition("]")[2] else f" at {place}:5432"


async def connect(url: str, *, is_patient: bool = False) -> Any:
    """One connection with our limits and codecs; wrong credentials are StoreUnavailable too.

    A patient one waits as long as it takes: for migrations, whose work has no bound.
    """
    limits = SESSION | (PATIENT if is_patient else {})
    try:
        connection = await driver.connect(
            url,
            timeout=CONNECT_TIMEOUT,
            command_timeout=None if is_patient else COMMAND_TIMEOUT,
            server_settings=limits,
        )
    except (*UNAVAILABLE, asyncpg.PostgresError, ValueError) as error:
        raise StoreUnavailable(
            f"cannot connect to the database{place_of(url)}: {reason(error)};"
            " check EVENBEAT_DATABASE_URL"
        ) from error
    with availability():
        await prepare(connection)
    return connection


async def prepare(connection: Any) -> None:
    """JSON goes in and out as Python values."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=encode_json,
        decoder=decode_json,
    )


async def leave_as_it_is(connection: object) -> None:
    """Nothing of ours outlives its transaction, so that there is nothing to undo.

    The driver's own way of undoing costs a round trip after every statement.
    """


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON value that is one element of an array parameter.

    Of a bare list the driver would make a further dimension of the array, and its items would
    be dealt out to the rows of other jobs.
    """

    value: Any


def encode_json(value: Any) -> bytes:
    """As jsonb travels: a version, then the text."""
    return b"\x01" + orjson.dumps(value.value if isinstance(value, Json) else value)


def decode_json(data: bytes) -> Any:
    return orjson.loads(data[1:])


class Session:
    """Named statements on one connection, or on any connection of a pool."""

    def __init__(self, runner: Any, clock: str) -> None:
        self._runner: Any = runner
        self._clock = clock

    async def fetch(self, statement: Statement, **given: Any) -> list[asyncpg.Record]:
        with availability():
            text, values = statement.text(self._clock), statement.arguments(given)
            return await self._runner.fetch(text, *values)

    async def fetch_row(self, statement: Statement, **given: Any) -> asyncpg.Record | None:
        with availability():
            text, values = statement.text(self._clock), statement.arguments(given)
            return await self._runner.fetchrow(text, *values)

    async def fetch_value(self, statement: Statement, **given: Any) -> Any:
        row = await self.fetch_row(statement, **given)
        return None if row is None else row[0]

    async def execute(self, statement: Statement, **given: Any) -> int:
        """Run it and say how many rows it changed."""
        with availability():
            text, values = statement.text(self._clock), statement.arguments(given)
            status: str = await self._runner.execute(text, *values)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdecimal() else 0


class Database(Session):
    """A pool of connections. `open` it before use; every statement is one transaction."""

    def __init__(
        self,
        url: str,
        *,
        clock: str = "database",
        pool_size: int = 10,
        is_for_engine: bool = False,
    ) -> None:
        self.url = url
        self.clock = clock
        self._pool_size = pool_size
        self._settings = SESSION | (ENGINE if is_for_engine else {})
        super().__init__(None, clock)

    async def open(self) -> None:
        # One connection first: a wrong URL is told at once and in one line.
        await (await connect(self.url)).close()
        with availability():
            self._runner = await driver.create_pool(
                self.url,
                min_size=1,
                max_size=self._pool_size,
                init=prepare,
                reset=leave_as_it_is,
                timeout=CONNECT_TIMEOUT,
                command_timeout=COMMAND_TIMEOUT,
                server_settings=self._settings,
            )

    async def close(self) -> None:
        if self._runner is None:
            return
        try:
            await asyncio.wait_for(self._runner.close(), CONNECT_TIMEOUT)
        except TimeoutError:
            self._runner.terminate()
        self._runner = None

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Session]:
        async with self.connection() as connection:
            with availability():
                transaction = connection.transaction()
                await transaction.start()
            try:
                yield Session(connection, self.clock)
            except BaseException:
                # A lost connection rolls back by itself; what went wrong first is what counts.
                with contextlib.suppress(*UNAVAILABLE):
                    await transaction.rollback()
                raise
            with availability():
                await transaction.commit()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncGenerator[Any]:
        with availability():
            connection = await self._runner.acquire(timeout=CONNECT_TIMEOUT)
        try:
            yield connection
        finally:
            await self._runner.release(connection)
