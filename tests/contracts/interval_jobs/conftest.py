"""Clients of the interval scheduler."""

from collections.abc import AsyncIterator

import pytest

from evenbeat.core.ops.access import Role
from tests.contracts.interval_jobs.client import Client, token
from tests.support.serving import token_for


@pytest.fixture(scope="module")
def extra_environ() -> dict[str, str]:
    # First after exactly one interval, as their document has it.
    return {"EVENBEAT_BALANCING": "off"}


@pytest.fixture
async def api(up: str) -> AsyncIterator[Client]:
    client = Client(up, token())
    yield client
    await client.http.aclose()


@pytest.fixture
async def admin(up: str) -> AsyncIterator[Client]:
    client = Client(up, token_for(Role.ADMIN))
    yield client
    await client.http.aclose()
