from collections.abc import AsyncIterator

import pytest

from evenbeat.config import Settings
from evenbeat.store.database import Database
from tests.contracts.s3.integrator import Integrator


@pytest.fixture
async def me(database: Database, settings: Settings) -> AsyncIterator[Integrator]:
    integrator = Integrator(database, settings)
    async with integrator.present():
        yield integrator
