"""Clients of a registry with groups and dead letters."""

from collections.abc import AsyncIterator

import pytest

from evenbeat.core.ops.access import Role
from tests.contracts.registry.client import Client
from tests.support.serving import token_for


@pytest.fixture
async def api(up: str) -> AsyncIterator[Client]:
    client = Client(up, token_for(Role.ADMIN))
    yield client
    await client.http.aclose()
