"""Fixtures: jobs under control, a node runner, and a connection of another client."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from evenbeat.config import Settings
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database.pool import Database
from tests.control.controlled_jobs import ControlledJobs, open_controlled_jobs
from tests.engine.node_runner import Does, NodeRunner


@pytest.fixture
async def controlled(database: Database) -> ControlledJobs:
    return await open_controlled_jobs(database)


@pytest.fixture
def node_runner(database: Database, settings: Settings) -> NodeRunner:
    return NodeRunner(database, settings)


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
