import pytest

from evenbeat.store.database.pool import Database
from tests.placement.placed_jobs import Yard, open_yard


@pytest.fixture
async def yard(database: Database) -> Yard:
    return await open_yard(database)
