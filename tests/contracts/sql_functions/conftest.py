"""Users of SQL functions on cron: they never leave SQL, and each test has a database of its own."""

from collections.abc import AsyncIterator

import pytest

from evenbeat.config import Settings
from evenbeat.store.database.pool import Database
from tests.conftest import clock, database, verified
from tests.contracts.sql_functions.client import Integrator

# Those of all tests, instead of those of processes that a module shares.
__all__ = ["clock", "database", "verified"]


@pytest.fixture
async def me(database: Database, settings: Settings) -> AsyncIterator[Integrator]:
    integrator = Integrator(database, settings)
    async with integrator.present():
        yield integrator
