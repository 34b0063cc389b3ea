"""The database inside the server, made when it is missing."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, cast

import asyncpg

from evenbeat.core.errors import PostgresFailed

CONNECT_WITHIN = 30


class AsyncpgConnection(Protocol):
    """What is used here of asyncpg's connection, which comes without types."""

    async def execute(self, query: str) -> str: ...
    async def close(self) -> None: ...


_connect = cast(
    "Callable[..., Awaitable[AsyncpgConnection]]",
    asyncpg.connect,  # pyright: ignore[reportUnknownMemberType]
)


def ensure_database(name: str, url: str, maintenance_url: str) -> None:
    """Log in, which also proves the password, and create the database if it is not there."""
    # In a thread of its own: the caller's may have an event loop running.
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, _ensure_explained(name, url, maintenance_url)).result()


def create_database(name: str, maintenance_url: str) -> None:
    """An empty one."""
    _run_aside(maintenance_url, f'create database "{name}"')


def copy_database(of: str, name: str, maintenance_url: str) -> None:
    """A copy of a database that nobody uses at this moment."""
    _run_aside(maintenance_url, f'create database "{name}" template "{of}"')


def drop_database(name: str, maintenance_url: str) -> None:
    """Whoever is connected is cut off."""
    _run_aside(maintenance_url, f'drop database if exists "{name}" with (force)')


def _run_aside(url: str, statement: str) -> None:
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, _run(url, statement)).result()


async def _ensure_explained(name: str, url: str, maintenance_url: str) -> None:
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
    deadline = time.monotonic() + CONNECT_WITHIN
    while True:
        try:
            return await _connect(url, ssl=False, timeout=CONNECT_WITHIN)
        except asyncpg.CannotConnectNowError:
            # A backend was killed: the server is restarting its parts, for a moment.
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
