"""One server for each module of these tests, and clients of it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from evenbeat.core.ops.access import Role
from tests.support import databases
from tests.support.serving import client_of, server_environ, serving, token_for


@pytest.fixture(scope="module")
def address(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    asyncio.run(databases.empty(database_url))
    place: Path = tmp_path_factory.mktemp("server")
    with serving("server", server_environ(database_url, place / "home"), place) as url:
        yield url


@pytest.fixture(scope="module")
def api(address: str) -> Iterator[httpx.Client]:
    """An operator's client."""
    with client_of(address, token_for(Role.OPERATOR)) as client:
        yield client


@pytest.fixture(scope="module")
def stranger(address: str) -> Iterator[httpx.Client]:
    """A client without a token."""
    with client_of(address, None) as client:
        yield client
