from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from evenbeat import Evenbeat, Portal
from evenbeat.config import Settings
from evenbeat.store.database.pool import Database


@pytest.fixture
def make_app(settings: Settings, database: Database) -> Callable[[], Evenbeat]:
    """Makes apps on the test's database: each stands for one version of a user's code."""
    return lambda: Evenbeat(settings)


@pytest.fixture
def app(make_app: Callable[[], Evenbeat]) -> Evenbeat:
    return make_app()


@pytest.fixture
async def eb(app: Evenbeat) -> AsyncIterator[Evenbeat]:
    async with app:
        yield app


@pytest.fixture
def portal(app: Evenbeat) -> Iterator[Portal]:
    portal = Portal(app)
    yield portal
    portal.close()
