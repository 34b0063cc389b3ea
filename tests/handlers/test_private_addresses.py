"""http jobs never reach private addresses: by no spelling, redirect or second DNS answer."""

import asyncio
import ipaddress
from collections.abc import Callable
from typing import Any

import pytest

from evenbeat.core.runs.outcome import Done, Failed
from evenbeat.handlers.http.addresses import Addresses
from evenbeat.handlers.http.outbound import OutboundClient, resolve
from tests.handlers.conftest import HERE
from tests.support.web import Web, answer_of, web_server

Call = Callable[..., Any]
PUBLIC = ipaddress.ip_address("93.184.216.34")
HOME = ipaddress.ip_address("127.0.0.1")


def assert_refused(outcome: object) -> Failed:
    assert isinstance(outcome, Failed)
    assert (outcome.error_type, outcome.is_final) == ("AddressRefused", True)
    return outcome


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "LOCALHOST", "2130706433", "0x7f000001"),
        *("0x7f.1", "127.1", "127.0.1", "0", "0.0.0.0", "[::1]", "[::]"),
        *("[::ffff:127.0.0.1]", "[::127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "127.0.0.2"),
    ],
)
async def test_this_machine_is_not_called_however_it_is_spelt(
    web: Web, call: Call, host: str
) -> None:
    outcome = assert_refused(await call(OutboundClient(Addresses()), url=web.url("/", host)))
    assert "which is not a public address" in outcome.error
    assert "EVENBEAT_ALLOWED_NETWORKS" in outcome.error
    assert web.seen == []


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::"),
        *("2001:0:53aa:64c::", "::ffff:10.0.0.1", "fd00:ec2::254", "fe80::1%lo", "fec0::1"),
        *("ff02::1", "224.0.0.1", "192.0.0.8", "100.64.0.1", "168.63.129.16"),
    ],
)
async def test_a_name_that_leads_to_a_closed_address_is_refused(call: Call, address: str) -> None:
    async def lie(host: str, port: int) -> Any:
        return [ipaddress.ip_address(address)]

    outcome = await call(OutboundClient(Addresses(), lie), url="http://public.example/")
    shown = str(ipaddress.ip_address(address))
    assert f"public.example is at {shown}," in assert_refused(outcome).error


async def test_a_name_is_resolved_once_so_that_it_cannot_change_its_mind(
    web: Web, call: Call
) -> None:
    asked: list[str] = []

    async def rebind(host: str, port: int) -> Any:
        asked.append(host)
        return [PUBLIC] if len(asked) == 1 else [HOME]

    # No server may answer at the public address; the test is that this address is tried.
    outcome = await call(
        OutboundClient(Addresses(), rebind), url=web.url("/", "rebind.example"), timeout=0.3
    )
    assert isinstance(outcome, Failed)
    assert outcome.error_type != "AddressRefused"
    assert asked == ["rebind.example"]
    assert web.seen == []


async def test_of_a_names_addresses_only_those_that_are_open_are_tried(
    web: Web, call: Call
) -> None:
    async def mixed(host: str, port: int) -> Any:
        return [ipaddress.ip_address("127.0.0.2"), HOME]

    web.answers["/"] = answer_of(200)
    async with web_server("127.0.0.2") as closed:
        outcome = await call(OutboundClient(HERE, mixed), url=web.url("/", "mixed.example"))
        assert closed.seen == []
    assert isinstance(outcome, Done)


async def test_if_one_address_does_not_answer_the_next_one_is_tried(web: Web, call: Call) -> None:
    async def both(host: str, port: int) -> Any:
        return [ipaddress.ip_address("127.0.0.3"), HOME]

    web.answers["/"] = answer_of(200)
    everything = OutboundClient(Addresses(allows_private=True), both)
    assert isinstance(await call(everything, url=web.url("/", "two.example")), Done)


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/secret",
        "//127.0.0.2:{port}/secret",
        "http://0x7f000002:{port}/secret",
        "http://[::ffff:127.0.0.2]:{port}/secret",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_a_closed_address_is_refused(
    web: Web, call: Call, status: int, location: str
) -> None:
    async with web_server("127.0.0.2") as closed:
        aim = location.format(port=closed.port)
        web.answers["/"] = answer_of(status, b"", f"Location: {aim}")
        assert_refused(await call(url=web.url("/"), follow_redirects=True))
        assert closed.seen == []


@pytest.mark.parametrize(
    "location",
    [
        *("file:///etc/passwd", "gopher://127.0.0.1/", "ftp://127.0.0.1/", "http://u:p@127.0.0.1/"),
        *("http://[fe80::1%25lo]/", "http://[::1", "unix:///var/run/docker.sock"),
    ],
)
async def test_a_redirect_to_what_is_no_web_address_is_refused(
    web: Web, call: Call, location: str
) -> None:
    web.answers["/"] = answer_of(302, b"", f"Location: {location}")
    outcome = assert_refused(await call(url=web.url("/"), follow_redirects=True))
    assert "redirects to an address that is not http or https" in outcome.error


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
async def test_no_proxy_of_the_environment_is_used(
    web: Web, call: Call, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with web_server() as proxy:
        monkeypatch.setenv(name, proxy.url(""))
        web.answers["/"] = answer_of(200)
        assert isinstance(await call(url=web.url("/")), Done)
        assert proxy.seen == []


async def test_what_is_allowed_is_called(web: Web, call: Call) -> None:
    web.answers["/"] = answer_of(200)
    for addresses in (
        Addresses(allows_private=True),
        Addresses.of_settings(["127.0.0.0/8"], allows_private=False),
        Addresses.of_settings(["localhost"], allows_private=False),
    ):
        assert isinstance(
            await call(OutboundClient(addresses), url=web.url("/", "localhost")), Done
        )


async def test_the_systems_resolver_is_asked_for_what_a_host_is() -> None:
    async with asyncio.timeout(20):
        assert HOME in await resolve("127.1", 80)
