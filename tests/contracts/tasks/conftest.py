"""Clients of the tasks service, whose document knows no tokens: sign-in is off."""

from collections.abc import AsyncIterator

import pytest

from tests.contracts.tasks.client import Client


@pytest.fixture(scope="module")
def environ(environ: dict[str, str]) -> dict[str, str]:
    return environ | {"EVENBEAT_AUTH": "off"}


@pytest.fixture
async def tasks(up: str) -> AsyncIterator[Client]:
    client = Client(up)
    yield client
    await client.http.aclose()
