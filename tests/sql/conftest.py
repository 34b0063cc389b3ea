from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from evenbeat.config import Settings
from evenbeat.store.database.pool import Database
from tests.engine.node_runner import RULES
from tests.sql.sql_schema import SqlSchema
from tests.support.database_reset import DatabaseReset


@pytest.fixture
async def sql_schema(database: Database, settings: Settings) -> AsyncIterator[SqlSchema]:
    sql_schema = SqlSchema(database, settings)
    await sql_schema.open()
    yield sql_schema
    await sql_schema.close()


@pytest.fixture
async def other_session(database: Database) -> AsyncIterator[Any]:
    """A connection that no node and no pool knows of."""
    connection = await asyncpg.connect(database.url)
    yield connection
    await connection.close()


@pytest.fixture(autouse=True)
def rules(database: Database, database_reset: DatabaseReset) -> Iterator[None]:
    yield
    assert database_reset.broken(RULES) == {}
