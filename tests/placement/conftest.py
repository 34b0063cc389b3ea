import pytest

from evenbeat.store.database.pool import Database
from tests.placement.placed_jobs import PlacedJobs, open_placed_jobs


@pytest.fixture
async def placed_jobs(database: Database) -> PlacedJobs:
    return await open_placed_jobs(database)
