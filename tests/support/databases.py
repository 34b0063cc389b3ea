"""One PostgreSQL per test run, one database per worker, emptied before every test."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from evenbeat.store.database import clock as clocks
from evenbeat.store.database.pool import Database

# DELETE is a hundred times faster than TRUNCATE here, and a thousand times than a new database.
EMPTY = """
    delete from evenbeat.run; delete from evenbeat.pulse; delete from evenbeat.job;
    delete from evenbeat.permit; delete from evenbeat.job_group; delete from evenbeat.dead_letter;
    delete from evenbeat.node; delete from evenbeat.lane; delete from evenbeat.audit;
    delete from evenbeat.job_version; delete from evenbeat.maintenance;
    delete from evenbeat.chore; delete from evenbeat.run_day; delete from evenbeat.run_total;
    delete from evenbeat.late_run; delete from evenbeat.run_log; delete from evenbeat.figure;
    delete from evenbeat.access_token; delete from evenbeat.idempotency;
    delete from evenbeat.template; delete from evenbeat.sql_job; delete from evenbeat.unplanned;
    delete from evenbeat.sql_login; delete from evenbeat.placement;
    delete from evenbeat.load_delta; delete from evenbeat.unplaced;
    delete from evenbeat.rebalance_plan; delete from evenbeat.score;
    insert into evenbeat.placing default values on conflict do nothing;
"""


async def create(admin_url: str, name: str) -> None:
    connection = await asyncpg.connect(admin_url)
    try:
        await connection.execute(f'drop database if exists "{name}" with (force)')
        await connection.execute(f'create database "{name}"')
    finally:
        await connection.close()


async def shorten_logins(url: str) -> None:
    """Set the password again, on a server that derives its key in one step instead of 4096.

    Tests make thousands of connections, and each one derives the key.
    """
    connection = await asyncpg.connect(url)
    try:
        # One worker at a time: all of them change the same row.
        await connection.execute("select pg_advisory_lock(0)")
        name, password = urlsplit(url).username, urlsplit(url).password
        await connection.execute(f"alter role {name} password '{password}'")
    finally:
        await connection.close()


# Autovacuum is off here: later tests would read the dead rows of thousands of earlier ones.
LARGE_TABLES = """
    select oid::regclass::text from pg_class
    where relnamespace = 'evenbeat'::regnamespace and relkind = 'r'
      and pg_relation_size(oid) > 500000
"""


async def empty(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await sweep(connection)
    finally:
        await connection.close()


async def sweep(connection: Any) -> None:
    await connection.execute(EMPTY)
    for (table,) in await connection.fetch(LARGE_TABLES):
        await connection.execute(f"vacuum {table}")


class Clock:
    """The clock of every process on one database; it stands still until a test moves it."""

    def __init__(self, database: Database, start: datetime) -> None:
        self._database = database
        self.now = start

    async def set_to(self, instant: datetime) -> datetime:
        self.now = instant
        await clocks.set_test_clock(self._database, instant)
        return instant

    async def advance(self, **duration: float) -> datetime:
        """As in `await clock.advance(minutes=5)`."""
        return await self.set_to(self.now + timedelta(**duration))
