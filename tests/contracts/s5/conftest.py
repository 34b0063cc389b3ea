"""One process for all tests of a module, that does what a registry's jobs do."""

from collections.abc import AsyncIterator

import pytest

from evenbeat.core.access import Role
from tests.contracts.s1.conftest import clock, database, start, up, verified
from tests.contracts.s1.conftest import environ as plain_environ
from tests.contracts.s5.talking import Client
from tests.support.serving import token_for

__all__ = ["clock", "database", "plain_environ", "start", "up", "verified"]


@pytest.fixture(scope="module")
def environ(plain_environ: dict[str, str]) -> dict[str, str]:
    return plain_environ | {"EVENBEAT_APP": "tests.contracts.s5.workers:eb"}


@pytest.fixture
async def api(up: str) -> AsyncIterator[Client]:
    client = Client(up, token_for(Role.ADMIN))
    yield client
    await client.http.aclose()
