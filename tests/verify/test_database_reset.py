"""What stays from test to test: it hides no breach, and nothing of the test before."""

import asyncio

import asyncpg
import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes
from tests.control.given import definition, value
from tests.support.database_reset import FEW, DatabaseReset
from tests.support.reused_connections import ReusedConnections

LIMIT = "select current_setting('statement_timeout')"
# Other workers of this test run have such sessions in databases of their own.
THROW_OUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = $1 and datname = current_database()
"""


async def harm(url: str, count: int) -> None:
    database = Database(url, clock="set")
    await database.open()
    await nodes.open_lanes(database, ["work"])
    jobs = Jobs(database, Registry())
    await jobs.add_many([definition() for _ in range(count)])
    async with database.connection() as connection:
        await connection.execute(
            "delete from evenbeat.pulse where id = (select max(id) from evenbeat.job)"
        )
    await jobs.close()
    await database.close()


@pytest.mark.parametrize("count", [1, FEW + 2])
def test_a_breach_is_found_among_few_and_among_many(
    database_url: str, empty_database: None, database_reset: DatabaseReset, count: int
) -> None:
    database = Database(database_url, clock="set")
    assert database_reset.breaches(database) == []
    asyncio.run(harm(database_url, count))
    [breach] = database_reset.breaches(database)
    assert breach.startswith("every job has a pulse: job ")


def test_a_caretaker_that_was_thrown_out_comes_back(
    database_url: str, empty_database: None, database_reset: DatabaseReset
) -> None:
    async def throw_out() -> bool:
        connection = await asyncpg.connect(database_url)
        try:
            return await connection.fetchval(THROW_OUT, "database_reset")
        finally:
            await connection.close()

    assert asyncio.run(throw_out())
    assert database_reset.broken({"there is one": "select 1"}) == {"there is one": [(1,)]}


async def lent(connections: ReusedConnections, url: str) -> Database:
    database = connections.database(url)
    await database.open()
    return database


async def test_nothing_of_a_test_is_left_on_its_connections(
    database: Database, connection_url: str
) -> None:
    connections = ReusedConnections()
    first = await lent(connections, connection_url)
    before = await value(first, LIMIT)
    pid = await value(first, "select pg_backend_pid()")
    async with first.connection() as connection:
        await connection.execute("set statement_timeout = 1234; listen evenbeat_wake")
    await first.close()
    second = await lent(connections, connection_url)
    assert await value(second, "select pg_backend_pid()") == pid
    assert await value(second, LIMIT) == before
    assert await value(second, "select count(*) from pg_listening_channels()") == 0
    await second.close()
    connections.take().terminate()


async def test_a_connection_that_a_test_has_kept_is_not_given_to_the_next(
    database: Database, connection_url: str
) -> None:
    connections = ReusedConnections()
    first = await lent(connections, connection_url)
    await first._runner.acquire()
    await first.close()
    assert connections.take() is None
