"""Clients of a registry with groups and dead letters."""

from collections.abc import AsyncIterator

import pytest

from evenbeat.core.access import Role
from tests.contracts.s5.talking import Client
from tests.support.serving import token_for


@pytest.fixture
async def api(up: str) -> AsyncIterator[Client]:
    client = Client(up, token_for(Role.ADMIN))
    yield client
    await client.http.aclose()
