from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from evenbeat.config import Settings
from evenbeat.store.database import Database
from tests.engine.workshop import check_rules
from tests.sql.shop import Shop


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
async def rules(database: Database) -> AsyncIterator[None]:
    yield
    await check_rules(database)
