from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from evenbeat.config import Settings
from evenbeat.store.database import Database
from tests.engine.workshop import RULES
from tests.sql.shop import Shop
from tests.support.caretaker import Caretaker


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
