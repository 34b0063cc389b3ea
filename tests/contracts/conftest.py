"""One process for all tests of a module: starting it takes longer than all of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from evenbeat.control.ops.verify import verify
from evenbeat.store.database import clock as clocks
from evenbeat.store.database.pool import Database
from tests.conftest import START
from tests.support import databases
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.reused_connections import ReusedConnections
from tests.support.serving import server_environ

Workers = Callable[..., Awaitable[list[Process]]]

ROOT = Path(__file__).resolve().parents[2]
QUICK = {
    "EVENBEAT_CLOCK": "set",
    "EVENBEAT_CHECK_INTERVAL": "100ms",
    "EVENBEAT_STALE_CHECK_INTERVAL": "100ms",
    "EVENBEAT_LEASE_DURATION": "2s",
    "EVENBEAT_HOUSEKEEPING_INTERVAL": "1s",
    # One test is a hundred strangers.
    "EVENBEAT_RATE_LIMIT": "0",
    "PYTHONPATH": str(ROOT),
}


async def begin(url: str) -> None:
    await databases.empty(url)
    database = Database(url, clock="set")
    await database.open()
    await clocks.set_test_clock(database, START)
    await database.close()


@pytest.fixture(scope="module")
def extra_environ() -> dict[str, str]:
    """What one contract wants otherwise."""
    return {}


@pytest.fixture(scope="module")
def environ(
    request: pytest.FixtureRequest,
    extra_environ: dict[str, str],
    database_url: str,
    connection_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    """Settings of processes on a database that is empty when the module begins."""
    asyncio.run(begin(database_url))
    contract = request.path.parent
    app = {"EVENBEAT_APP": f"tests.contracts.{contract.name}.workers:eb"}
    given = app if (contract / "workers.py").exists() else {}
    return (
        server_environ(connection_url, tmp_path_factory.mktemp("home"))
        | QUICK
        | given
        | extra_environ
    )


@pytest.fixture(scope="module")
def start(
    environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Process]]:
    """Starts real processes, which live until the module ends."""
    started: list[Process] = []
    cwd = tmp_path_factory.mktemp("processes")

    def begin(*arguments: str, **more: str) -> Process:
        started.append(Process(*arguments, environ=environ | more, cwd=cwd))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


@pytest.fixture(scope="module", autouse=True)
def verified(connection_url: str, start: Callable[..., Process]) -> Iterator[None]:
    """Ends a module by looking for breaches, once for all of its tests."""
    yield
    assert asyncio.run(breaches(connection_url)) == []


async def breaches(url: str) -> list[str]:
    database = Database(url, clock="set")
    await database.open()
    found = await verify(database)
    await database.close()
    return [str(breach) for breach in found]


@pytest.fixture(scope="module")
def up(start: Callable[..., Process]) -> str:
    """The address of a process that is everything at once."""
    return asyncio.run(start("up").ready())


@pytest.fixture
async def database(
    connection_url: str, environ: dict[str, str], connections: ReusedConnections
) -> AsyncIterator[Database]:
    """The module's database, as the tests before have left it."""
    database = connections.database(connection_url)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def clock(database: Database) -> Clock:
    """Goes on from where the test before has left it."""
    return Clock(database, await clocks.now(database))


@pytest.fixture
async def workers(start: Callable[..., Process]) -> AsyncIterator[Workers]:
    """Starts so many workers, each with few hands, so that there is work for all of them."""
    started: list[Process] = []

    async def begin(count: int, **more: str) -> list[Process]:
        few = {"EVENBEAT_CONCURRENCY": "5"} | more
        made = [start("worker", **few) for _ in range(count)]
        started.extend(made)
        await asyncio.gather(*(each.ready() for each in made))
        return made

    yield begin
    for process in started:
        process.kill()
