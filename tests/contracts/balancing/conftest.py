"""Processes of the self-balancing scheduler, as one module of tests shares them."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.contracts.balancing.client import Client, token
from tests.support.processes import Process


@pytest.fixture(scope="module")
def extra_environ() -> dict[str, str]:
    return {"EVENBEAT_APP": "tests.contracts.interval_jobs.workers:eb"}


@pytest.fixture(scope="module")
def up(start: Callable[..., Process]) -> str:
    """The address of a process that is everything at once, with balancing on."""
    return asyncio.run(start("up", EVENBEAT_SCORE_INTERVAL="1s").ready())


@pytest.fixture
async def api(up: str) -> AsyncIterator[Client]:
    client = Client(up, token())
    yield client
    await client.http.aclose()


@pytest.fixture(scope="module")
def servers(start: Callable[..., Process]) -> Callable[[str], Process]:
    """A server for each mode that somebody asks for; it runs no jobs."""
    started: dict[str, Process] = {}

    def of_mode(mode: str) -> Process:
        if mode not in started:
            started[mode] = start("server", EVENBEAT_BALANCING=mode)
        return started[mode]

    return of_mode


@pytest.fixture
async def server(servers: Callable[[str], Process]) -> AsyncIterator[Callable[..., object]]:
    """Makes clients of these: `await server("observe")`."""
    made: list[Client] = []

    async def of_mode(mode: str) -> Client:
        made.append(Client(await servers(mode).ready(), token()))
        return made[-1]

    yield of_mode
    for client in made:
        await client.http.aclose()
