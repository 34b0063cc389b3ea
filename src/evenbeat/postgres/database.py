"""Makes, copies and drops databases of the embedded server."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, cast

import asyncpg

from evenbeat.core.errors import PostgresFailed

CONNECT_TIMEOUT = 30


class AsyncpgConnection(Protocol):
    """The methods of asyncpg's connection that are used here; asyncpg has no types."""

    async def execute(self, query: str) -> str: ...
    async def close(self) -> None: ...


_connect = cast(
    "Callable[..., Awaitable[AsyncpgConnection]]",
    asyncpg.connect,  # pyright: ignore[reportUnknownMemberType]
)


def ensure_database(name: str, url: str, maintenance_url: str) -> None:
    """Log in, which also checks the password, and create the database if it is missing."""
    # In another thread: the caller's may have a running event loop.
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, _ensure_with_clear_errors(name, url, maintenance_url)).result()


def create_database(name: str, maintenance_url: str) -> None:
    """Create an empty database."""
    _run_in_thread(maintenance_url, f'create database "{name}"')


def copy_database(of: str, name: str, maintenance_url: str) -> None:
    """Copy a database; nothing may be connected to it."""
    _run_in_thread(maintenance_url, f'create database "{name}" template "{of}"')


def drop_database(name: str, maintenance_url: str) -> None:
    """Drop a database; connections to it are closed."""
    _run_in_thread(maintenance_url, f'drop database if exists "{name}" with (force)')


def _run_in_thread(url: str, statement: str) -> None:
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, _run(url, statement)).result()


async def _ensure_with_clear_errors(name: str, url: str, maintenance_url: str) -> None:
    try:
        await _ensure(name, url, maintenance_url)
    except asyncpg.InvalidPasswordError as error:
        raise PostgresFailed(
            f"the embedded PostgreSQL does not accept its own password ({error}): the file "
            "`password` beside the data directory must be the one made with it"
        ) from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise PostgresFailed(
            f"the embedded PostgreSQL runs but cannot be used: {error or type(error).__name__}"
        ) from error


async def _ensure(name: str, url: str, maintenance_url: str) -> None:
    try:
        await _run(url, "select 1")
    except asyncpg.InvalidCatalogNameError:
        await _run(maintenance_url, f'create database "{name}"')


async def _run(url: str, statement: str) -> None:
    connection = await _connect_when_possible(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _connect_when_possible(url: str) -> AsyncpgConnection:
    deadline = time.monotonic() + CONNECT_TIMEOUT
    while True:
        try:
            return await _connect(url, ssl=False, timeout=CONNECT_TIMEOUT)
        except asyncpg.CannotConnectNowError:
            # After a backend was killed, the server restarts its processes for a moment.
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
