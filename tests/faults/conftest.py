"""Faults that are over in a few seconds; the long ones are in tests/proofs."""

from collections.abc import AsyncIterator

import pytest

from evenbeat.config import Settings
from evenbeat.store.database import Database
from tests.engine.workshop import Workshop, check_rules
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
def workshop(database: Database, settings: Settings) -> Workshop:
    """On this side of the network: what it sees is so."""
    return Workshop(database, settings)


@pytest.fixture
def far_workshop(far: Database, settings: Settings) -> Workshop:
    return Workshop(far, settings)


@pytest.fixture(autouse=True)
async def rules(database: Database) -> AsyncIterator[None]:
    yield
    await check_rules(database)
