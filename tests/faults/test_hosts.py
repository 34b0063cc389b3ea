"""A database of several hosts, of which some are gone, silent, or take no writes."""

import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from evenbeat.core.errors import StoreUnavailable
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database
from evenbeat.store.database.route import CONNECT_TIMEOUT, Route, parse_hosts
from evenbeat.store.ops import nodes
from tests.postgres.support import free_port
from tests.support.network import Network, network
from tests.support.waiting import eventually


@pytest.fixture
async def near(own_server: EmbeddedServer) -> AsyncIterator[Network]:
    """The server that may be harmed, by way of TCP."""
    own_server.ensure_running()
    async with network(own_server.url()) as near:
        yield near


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Of a host that takes connections and never says a word."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def several(url: str, *ports: int) -> str:
    """The URL with other hosts before its own."""
    others = ",".join(f"127.0.0.1:{port}" for port in ports)
    auth, _, place = urlsplit(url).netloc.rpartition("@")
    return url.replace(f"{auth}@{place}", f"{auth}@{others},{place}")


async def read_only(server: EmbeddedServer, *, is_on: bool) -> None:
    """As a primary that was demoted shows itself to those who are connected."""
    connection = await asyncpg.connect(server.url())
    try:
        await connection.execute("set default_transaction_read_only = off")
        await connection.execute(
            f"alter system set default_transaction_read_only = {'on' if is_on else 'off'}"
        )
        await connection.execute("select pg_reload_conf()")
    finally:
        await connection.close()


class Watched:
    """The driver, and whom it was told to ask, for how long."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.limits: list[float] = []

    async def connect(self, *url: str, port: int, timeout: float, **options: Any) -> Any:  # noqa: ASYNC109
        self.ports.append(port)
        self.limits.append(timeout)
        return await asyncpg.connect(*url, port=port, timeout=timeout, **options)


async def test_the_second_host_is_asked_when_the_first_is_gone_or_silent(
    near: Network, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, gone_port = Watched(), free_port()
    monkeypatch.setattr("evenbeat.store.database.route.driver", watched)
    database = Database(several(near.url, gone_port, silent_port))
    await database.open()
    first, pooled = watched.ports[:3], watched.ports[3:]
    assert first == [gone_port, silent_port, near.port]
    assert sum(watched.limits[:3]) <= CONNECT_TIMEOUT
    assert pooled == [near.port], "from then on it is the first to be asked"
    await clock.now(database)
    await database.close()


async def test_of_several_hosts_only_one_that_takes_writes_will_do(
    near: Network, own_server: EmbeddedServer
) -> None:
    route = Route(several(near.url, free_port()))
    await read_only(own_server, is_on=True)
    try:
        with pytest.raises(StoreUnavailable, match="cannot connect"):
            await route.connect({})
        any_host = await Route(f"{route.url}?target_session_attrs=any").connect({})
        await any_host.close()
    finally:
        await read_only(own_server, is_on=False)
    await (await route.connect({})).close()


async def test_a_demoted_server_is_unavailable_and_none_of_its_connections_is_kept(
    near: Network, own_server: EmbeddedServer
) -> None:
    database = Database(near.url, pool_size=2)
    await database.open()
    await nodes.open_lanes(database, ["before"])
    async with database.connection() as connection:
        before = connection.get_server_pid()
    await read_only(own_server, is_on=True)

    async def is_refused() -> bool:
        try:
            await nodes.open_lanes(database, [f"during {time.monotonic()}"])
        except StoreUnavailable as error:
            return "takes no writes" in str(error)
        return False

    try:
        await eventually(is_refused, "that writes are refused")
    finally:
        await read_only(own_server, is_on=False)
    async with database.connection() as connection:
        assert connection.get_server_pid() != before
    await database.close()


def test_the_hosts_of_a_url_are_read_in_all_their_forms() -> None:
    assert parse_hosts("postgresql://u:p@one,two:5433/db") == [("one", 5432), ("two", 5433)]
    assert parse_hosts("postgresql://u@[::1]:1,[::2]/db") == [("::1", 1), ("::2", 5432)]
    assert parse_hosts("postgresql://u@/db?host=/run/a,/run/b&port=1,2") == [
        ("/run/a", 1),
        ("/run/b", 2),
    ]
    assert parse_hosts("postgresql://u@/db?host=/run/a,/run/b&port=7") == [
        ("/run/a", 7),
        ("/run/b", 7),
    ]
    assert parse_hosts("postgresql://u@one/db") == []


async def test_a_port_that_is_none_is_told_without_showing_it() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await Route("postgresql://u:canary,x/y@one/db").connect({})
    assert "canary" not in str(caught.value)
