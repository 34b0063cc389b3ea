"""Processes on an external server: probes and signals, with the database there and gone."""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from evenbeat.postgres import EmbeddedServer
from tests.postgres.support import server_at, stop_for_certain
from tests.support.processes import Api, Process
from tests.support.serving import assert_problem
from tests.support.waiting import eventually


@pytest.fixture
def other_server(home: Path) -> Iterator[EmbeddedServer]:
    """A PostgreSQL that a test may stop, known to the processes by its URL alone."""
    server = server_at(home / "postgres")
    server.acquire()
    yield server
    server.release()
    stop_for_certain(home / "postgres")


async def test_probes_tell_that_the_database_is_gone_and_work_goes_on_when_it_is_back(
    start: Callable[..., Process], client: Callable[..., Api], other_server: EmbeddedServer
) -> None:
    url = other_server.url()
    password = urlsplit(url).password
    assert password
    up = start(
        "up",
        EVENBEAT_DATABASE_URL=url,
        EVENBEAT_CLOCK="database",
        EVENBEAT_LEASE_DURATION="1s",
    )
    address = await up.ready()
    api, stranger = client(address), client(address, role=None)
    ready = (await stranger.get("/readyz")).json()
    assert ready["status"] == "ready"
    assert ready["checks"] == {"database": "ok", "schema": "ok", "schedule": "ok"}

    other_server.release()
    gone = await stranger.get("/readyz")
    assert gone.status_code == 503
    assert gone.json()["status"] == "not ready"
    assert "the database" in gone.json()["checks"]["database"]
    assert (await stranger.get("/livez")).json() == {"status": "alive"}
    refused = await api.post("/api/v1/jobs", {"kind": "echo"})
    assert_problem(refused, 503)
    assert refused.headers["retry-after"] == "1"
    await up.says("Loop failed")

    other_server.acquire()

    async def is_ready() -> bool:
        return (await stranger.get("/readyz")).status_code == 200

    await eventually(is_ready, "readiness")
    job = await api.create(kind="echo", payload="after")
    assert (await api.completed(job["id"]))["result"] == "after"
    assert await up.stop() == 0
    assert password not in up.output + gone.text + refused.text


async def test_a_process_outlives_an_outage_longer_than_its_lease(
    start: Callable[..., Process], client: Callable[..., Api], other_server: EmbeddedServer
) -> None:
    up = start(
        "up",
        EVENBEAT_DATABASE_URL=other_server.url(),
        EVENBEAT_CLOCK="database",
        EVENBEAT_LEASE_DURATION="1s",
    )
    api = client(await up.ready())
    # The node is at work: one that the outage meets while it joins has no lease to renew.
    await api.completed((await api.create(kind="echo", payload="before"))["id"])
    other_server.release()
    # It tries four times a lease: after six in vain the lease is over.
    await eventually(
        lambda: up.output.count("Lease not renewed") >= 6 or up.exit_code is not None,
        f"an outage in:\n{up.output}",
    )
    assert up.exit_code is None, up.output
    other_server.acquire()
    job = await api.create(kind="echo", payload="after")
    assert (await api.completed(job["id"]))["result"] == "after"
    assert await up.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_one_signal_ends_a_process_gracefully_and_is_told_at_once(
    start: Callable[..., Process], number: signal.Signals
) -> None:
    up = start("up")
    await up.ready()
    up.signal(number)
    assert await up.ended() == 0
    output = up.output
    assert output.index("Evenbeat is stopping") < output.index("Node left")
    assert output.index("Node left") < output.index("Evenbeat has stopped")
    assert "Traceback" not in output


async def test_a_second_signal_waits_for_nothing(
    start: Callable[..., Process], client: Callable[..., Api]
) -> None:
    server = start("server")
    url = await server.ready()
    api = client(url)
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port)) as slow:
        # A request whose body never comes: a graceful stop would wait for it.
        slow.sendall(
            b"POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n"
            b"authorization: " + api.http.headers["authorization"].encode() + b"\r\n"
            b"content-type: application/json\r\n\r\n{"
        )
        assert (await api.get("/livez")).status_code == 200
        server.signal(signal.SIGTERM)
        await server.says("Evenbeat is stopping")
        assert server.exit_code is None
        server.signal(signal.SIGTERM)
        assert await server.ended() == 130
    assert "Traceback" not in server.output
