import pytest

from evenbeat.store.database import Database
from tests.control.desk import Desk, open_desk


@pytest.fixture
async def desk(database: Database) -> Desk:
    return await open_desk(database)
