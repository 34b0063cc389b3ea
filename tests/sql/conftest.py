from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from evenbeat.config import Settings
from evenbeat.store.database.pool import Database
from tests.engine.node_runner import RULES
from tests.sql.sql_schema import Shop
from tests.support.database_reset import Caretaker


@pytest.fixture
async def shop(database: Database, settings: Settings) -> AsyncIterator[Shop]:
    shop = Shop(database, settings)
    await shop.open()
    yield shop
    await shop.close()


@pytest.fixture
async def other_session(database: Database) -> AsyncIterator[Any]:
    """A connection that no node and no pool knows of."""
    connection = await asyncpg.connect(database.url)
    yield connection
    await connection.close()


@pytest.fixture(autouse=True)
def rules(database: Database, caretaker: Caretaker) -> Iterator[None]:
    yield
    assert caretaker.broken(RULES) == {}
