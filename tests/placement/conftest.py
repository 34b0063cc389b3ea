import pytest

from evenbeat.store.database import Database
from tests.placement.yard import Yard, open_yard


@pytest.fixture
async def yard(database: Database) -> Yard:
    return await open_yard(database)
