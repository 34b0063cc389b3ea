import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from evenbeat.config import Settings
from evenbeat.store.database.pool import Database
from tests.engine.node_runner import RULES, NodeRunner
from tests.support.database_reset import DatabaseReset
from tests.support.processes import Process

PROGRAM = Path(__file__).with_name("programs") / "gated_node.py"


@pytest.fixture
def node_runner(database: Database, settings: Settings) -> NodeRunner:
    return NodeRunner(database, settings)


@pytest.fixture(autouse=True)
def rules(
    request: pytest.FixtureRequest, database: Database, database_reset: DatabaseReset
) -> Iterator[None]:
    """Every test of the engine ends with a look at what must always hold."""
    yield
    if request.node.get_closest_marker("removes_history") is None:
        assert database_reset.broken(RULES) == {}


@pytest.fixture
async def other_session(database: Database) -> AsyncIterator[Any]:
    """A connection that no node and no pool knows of."""
    connection = await asyncpg.connect(database.url)
    yield connection
    await connection.close()


@pytest.fixture
def gated_node(environ: dict[str, str], tmp_path: Path) -> Iterator[Callable[[], Process]]:
    """Starts processes with one node each, whose handler ends at SIGUSR1."""
    started: list[Process] = []

    def start() -> Process:
        program = (sys.executable, PROGRAM)
        started.append(Process("node", environ=environ, cwd=tmp_path, program=program))
        return started[-1]

    yield start
    for process in started:
        process.kill()
