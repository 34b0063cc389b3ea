"""Jobs in the hands of people: a desk, a workshop, and somebody else's connection."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from evenbeat.config import Settings
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database.pool import Database
from tests.control.controlled_jobs import Desk, open_desk
from tests.engine.node_runner import Does, Workshop


@pytest.fixture
async def desk(database: Database) -> Desk:
    return await open_desk(database)


@pytest.fixture
def workshop(database: Database, settings: Settings) -> Workshop:
    return Workshop(database, settings)


@pytest.fixture
async def jobs(database: Database) -> AsyncIterator[Jobs]:
    """The jobs as a process sees them that serves `work`."""
    made = Jobs(database, Registry([Does(Done())]))
    yield made
    await made.close()


@pytest.fixture
async def caller(database: Database) -> AsyncIterator[Any]:
    """A connection of somebody else, with nothing set on it."""
    connection = await asyncpg.connect(database.url)
    yield connection
    await connection.close()
