import pytest

from evenbeat.store.database.pool import Database
from tests.store.given import JobStore, open_job_store


@pytest.fixture
async def job_store(database: Database) -> JobStore:
    return await open_job_store(database)
