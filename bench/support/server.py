"""A PostgreSQL of the benchmark's own, as durable as a user's, and databases on it."""

import asyncio
import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path

import asyncpg

from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations

# What the docs advise for a busy server; the bare statements and every peer get the same.
BUSY = {"shared_buffers": "1GB", "max_wal_size": "4GB", "autovacuum_naptime": "2s"}
# For anything that a worker is to do.
LONGEST_WAIT = 120.0


@contextlib.contextmanager
def server() -> Generator[EmbeddedServer]:
    with tempfile.TemporaryDirectory(prefix="evenbeat-bench-") as home:
        Path(home).chmod(0o755)
        running = EmbeddedServer(Path(home) / "home", settings=BUSY)
        running.acquire()
        try:
            yield running
        finally:
            running.release()


async def fresh(running: EmbeddedServer, name: str, *, migrated: bool = True) -> str:
    """A new database, so that nothing inherits another's bloat."""
    admin = await asyncpg.connect(running.url("postgres"))
    await admin.execute(f'drop database if exists "{name}" with (force)')
    await admin.execute(f'create database "{name}"')
    await admin.execute("checkpoint")
    await admin.close()
    if migrated:
        await migrations.migrate(running.url(name))
    return running.url(name)


async def joined(url: str) -> None:
    """Wait until a node is alive."""
    connection = await asyncpg.connect(url)
    await until(connection, "select exists (select from evenbeat.node where dead_at is null)")
    await connection.close()


async def until(connection: asyncpg.Connection, question: str, *values: object) -> None:
    """Ask again and again until the answer is yes; give up where a worker has died, say."""
    async with asyncio.timeout(LONGEST_WAIT):
        while not await connection.fetchval(question, *values):
            await asyncio.sleep(0.1)
