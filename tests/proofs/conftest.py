"""Proofs: real nodes by the real clock, and whatever can happen to them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evenbeat.store.database.pool import Database
from tests.proofs.fleet import Fleet, environ_for


@pytest.fixture
async def fleet(database: Database, tmp_path: Path) -> AsyncIterator[Fleet]:
    by_the_clock = Database(database.url)
    await by_the_clock.open()
    fleet = Fleet(by_the_clock, environ_for(database.url, tmp_path), tmp_path)
    yield fleet
    fleet.clear()
    await by_the_clock.close()
