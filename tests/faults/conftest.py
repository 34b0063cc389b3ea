"""Faults that are over in a few seconds; the long ones are in tests/proofs."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from evenbeat.config import Settings
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import Database
from tests.engine.node_runner import RULES, NodeRunner
from tests.postgres.support import stop_for_certain
from tests.proofs.fleet import Fleet, environ_for
from tests.support import databases
from tests.support.database_reset import DatabaseReset
from tests.support.network import Network, network


@pytest.fixture
async def wire(database: Database) -> AsyncIterator[Network]:
    """A network to the tests' database, that can be cut."""
    async with network(database.url) as wire:
        yield wire


@pytest.fixture
async def far(wire: Network) -> AsyncIterator[Database]:
    """The tests' database, beyond that network."""
    database = Database(wire.url, clock="set", pool_size=5)
    await database.open()
    yield database
    wire.heal()
    await database.close()


@pytest.fixture
def node_runner(database: Database, settings: Settings) -> NodeRunner:
    """On this side of the network: what it sees is so."""
    return NodeRunner(database, settings)


@pytest.fixture
def far_node_runner(far: Database, settings: Settings) -> NodeRunner:
    return NodeRunner(far, settings)


@pytest.fixture(scope="session")
def own_server() -> Iterator[EmbeddedServer]:
    """A server that tests may stop and kill, and that keeps what it promises to disk."""
    home = Path(tempfile.mkdtemp(prefix="evenbeat-"))
    home.chmod(0o755)
    server = EmbeddedServer(home / "postgres")
    server.acquire()
    asyncio.run(migrations.migrate(server.url()))
    yield server
    server.release()
    stop_for_certain(home / "postgres")
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def own_fleet(own_server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Nodes in processes of their own, on that server."""
    own_server.ensure_running()
    await databases.empty(own_server.url())
    database = Database(own_server.url())
    await database.open()
    fleet = Fleet(database, environ_for(own_server.url(), tmp_path), tmp_path)
    yield fleet
    fleet.clear()
    await database.close()


@pytest.fixture
def rules(database: Database, database_reset: DatabaseReset) -> Iterator[None]:
    """For tests on the database that all tests share."""
    yield
    assert database_reset.broken(RULES) == {}
