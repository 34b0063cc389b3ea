import pytest

from evenbeat.store.database.pool import Database
from tests.store.given import Shop, open_shop


@pytest.fixture
async def shop(database: Database) -> Shop:
    return await open_shop(database)
