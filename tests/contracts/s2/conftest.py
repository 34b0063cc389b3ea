"""Processes of the self-balancing scheduler, as one module of tests shares them."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.contracts.s1.conftest import (  # noqa: F401 - fixtures are found by their names here
    clock,
    database,
    environ,
    start,
    verified,
)
from tests.contracts.s2.talking import Client, token
from tests.support.processes import Process


@pytest.fixture(scope="module")
def up(start: Callable[..., Process]) -> str:  # noqa: F811
    """The address of a process that is everything at once, with balancing on."""
    return asyncio.run(start("up", EVENBEAT_SCORE_INTERVAL="1s").ready())


@pytest.fixture
async def api(up: str) -> AsyncIterator[Client]:
    client = Client(up, token())
    yield client
    await client.http.aclose()


@pytest.fixture
async def server(
    start: Callable[..., Process],  # noqa: F811
) -> AsyncIterator[Callable[[str], Client]]:
    """Makes clients of a server of their own: `server("observe")`. It runs no jobs."""
    made: list[Client] = []
    known: dict[str, str] = {}

    async def of_mode(mode: str) -> Client:
        if mode not in known:
            known[mode] = await start("server", EVENBEAT_BALANCING=mode).ready()
        made.append(Client(known[mode], token()))
        return made[-1]

    yield of_mode
    for client in made:
        await client.http.aclose()
