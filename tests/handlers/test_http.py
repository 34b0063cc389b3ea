"""http jobs against a real server: what is sent, what counts as success, and every limit."""

import asyncio
import gzip
import re
import ssl
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import ErrorClass
from evenbeat.core.runs.outcome import Done, Failed
from evenbeat.handlers.http.handler import Http
from evenbeat.handlers.http.outbound import OutboundClient, decoded
from tests.handlers.conftest import HERE
from tests.support.web import CERTIFICATE, Web, answer_of, web_server

Call = Callable[..., Any]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_what_is_sent_and_what_is_kept_of_the_answer(web: Web, call: Call) -> None:
    web.answers["/in?q=1"] = answer_of(201, "grüß dich".encode(), "ETag: x", "X-Other: y")
    outcome = await call(
        url=web.url("/in?q=1"),
        method="post",
        headers={"X-Mine": "yes", "User-Agent": "tests"},
        json={"a": [1, "ä"]},
    )
    [seen] = web.seen
    assert seen.line == "POST /in?q=1 HTTP/1.1"
    assert seen.headers["host"] == f"127.0.0.1:{web.port}"
    assert (seen.headers["x-mine"], seen.headers["user-agent"]) == ("yes", "tests")
    assert seen.headers["content-type"] == "application/json"
    assert seen.body == '{"a":[1,"ä"]}'.encode()
    assert isinstance(outcome, Done)
    assert outcome.result.pop("duration") >= 0
    assert outcome.result == {
        "status": 201,
        "headers": {"content-length": "11", "etag": "x"},
        "body": "grüß dich",
        "truncated": False,
    }


async def test_a_body_that_is_text_goes_out_as_it_is(web: Web, call: Call) -> None:
    web.answers["/"] = answer_of(204)
    assert isinstance(await call(url=web.url("/"), method="PUT", body="a=1\n"), Done)
    assert (web.seen[0].body, web.seen[0].line) == (b"a=1\n", "PUT / HTTP/1.1")
    assert web.seen[0].headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("expected", "status", "is_done"),
    [
        ("2xx", 299, True),
        ("2xx", 300, False),
        ([200, 404], 404, True),
        ([200, 404], 403, False),
        ("200-204", 204, True),
        ("200-204", 205, False),
        ([503, "4XX"], 418, True),
        (302, 302, True),
    ],
)
async def test_done_is_what_has_the_expected_status(
    web: Web, call: Call, expected: Any, status: int, is_done: bool
) -> None:
    web.answers["/"] = answer_of(status)
    outcome = await call(url=web.url("/"), expected_status=expected)
    assert isinstance(outcome, Done) is is_done


async def test_another_status_fails_by_a_name_that_retry_rules_can_use(
    web: Web, call: Call
) -> None:
    web.answers["/x?key=1"] = answer_of(503, b"come back later", "Retry-After: 5")
    outcome = await call(url=web.url("/x?key=1"))
    assert isinstance(outcome, Failed)
    assert (outcome.error_type, outcome.is_final) == ("HTTP 503", False)
    assert outcome.error == f"GET {web.url('/x')} answered 503: come back later"


async def test_a_host_without_a_server_is_tried_again(call: Call) -> None:
    async with web_server() as gone:
        url = gone.url("/")
    outcome = await call(url=url)
    assert isinstance(outcome, Failed)
    assert (outcome.error_type, outcome.is_final) == ("Unreachable", False)
    unknown = await call(url="http://nonesuch.invalid/")
    assert isinstance(unknown, Failed)
    assert "the host nonesuch.invalid cannot be found" in unknown.error


# --- hostile servers -----------------------------------------------------------------------------


def hanging(first: bytes = b"") -> Any:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await writer.drain()
        await asyncio.Event().wait()

    return answer


async def one_byte_at_a_time(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(hanging(), id="no word"),
        pytest.param(hanging(b"HTTP/1.1 200 OK\r\nX-A: "), id="half a head"),
        pytest.param(
            hanging(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), id="half a body"
        ),
        pytest.param(one_byte_at_a_time, id="one byte at a time"),
    ],
)
async def test_a_slow_answer_ends_at_the_timeout_of_the_whole(
    web: Web, call: Call, answer: Any
) -> None:
    web.answers["/"] = answer
    async with asyncio.timeout(20):
        outcome = await call(url=web.url("/"), timeout=0.5)
    assert isinstance(outcome, Failed)
    assert outcome.error_class is ErrorClass.TIMEOUT
    assert outcome.error == f"GET {web.url('/')}: no whole answer within 0.5 s"


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(CHUNKED)
    while True:
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()


def bomb(level: str) -> Any:
    """200 MB of zeros: less than one on the wire."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        # Packed here: parameters of tests are computed by every worker at collection.
        maker = zlib.compressobj(1, zlib.DEFLATED, 31 if level == "gzip" else 15)
        packed = b"".join(maker.compress(bytes(1_000_000)) for _ in range(200)) + maker.flush()
        writer.write(answer_of(200, packed, f"Content-Encoding: {level}"))

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(endless, id="endless"),
        pytest.param(bomb("gzip"), id="gzip bomb"),
        pytest.param(bomb("deflate"), id="deflate bomb"),
    ],
)
async def test_of_a_body_without_end_ten_megabytes_are_read(
    web: Web, call: Call, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    send = OutboundClient.send

    async def watched(self: OutboundClient, request: Any) -> Any:
        got = await send(self, request)
        read.append(len(got.body))
        return got

    monkeypatch.setattr(OutboundClient, "send", watched)
    web.answers["/"] = answer
    outcome = await call(url=web.url("/"))
    assert read == [10_000_000]
    assert isinstance(outcome, Done)
    assert outcome.result["truncated"] is True
    assert len(outcome.result["body"]) == 64_000


def test_a_bomb_is_unpacked_a_piece_at_a_time() -> None:
    packed = zlib.compress(bytes(50_000_000), 9)
    pieces = decoded(zlib.decompressobj(), packed)
    assert [len(piece) for piece, _ in zip(pieces, range(3), strict=False)] == [65_536] * 3


async def test_a_packed_body_is_unpacked(web: Web, call: Call) -> None:
    web.answers["/"] = answer_of(200, gzip.compress(b"hello"), "Content-Encoding: gzip")
    assert (await call(url=web.url("/"))).result["body"] == "hello"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n", "RemoteProtocolError"),
        (b"SSH-2.0-OpenSSH_9\r\n", "RemoteProtocolError"),
        (b"", "RemoteProtocolError"),
        (answer_of(200, b"not gzip", "Content-Encoding: gzip"), "error: Error -3"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "RemoteProtocolError"),
    ],
    ids=["one huge header", "many headers", "not HTTP", "nothing", "not gzip", "cut off"],
)
async def test_what_is_not_a_whole_answer_is_a_failure(
    web: Web, call: Call, answer: bytes, why: str
) -> None:
    web.answers["/"] = answer
    outcome = await call(url=web.url("/"))
    assert isinstance(outcome, Failed)
    assert (outcome.error_type, outcome.is_final) == ("Unreachable", False)
    assert why in outcome.error


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (b"\xff\x00\xfe", "image/png", "\ufffd\ufffd\ufffd"),
        (b"gr\xfc\xdfe", "text/plain; charset=ISO-8859-1", "grüße"),
        (b"abc", "text/plain; charset=nonesuch", "abc"),
        (b"abc", 'text/plain; charset="utf-8"; x=y', "abc"),
        (b"616263", "text/plain; charset=hex", "616263"),
    ],
)
async def test_whatever_the_body_is_the_result_is_text_that_can_be_stored(
    web: Web, call: Call, body: bytes, kind: str, text: str
) -> None:
    web.answers["/"] = answer_of(200, body, f"Content-Type: {kind}")
    assert (await call(url=web.url("/"))).result["body"] == text


# --- redirects -----------------------------------------------------------------------------------


async def test_a_redirect_is_followed_only_if_it_is_asked_for(web: Web, call: Call) -> None:
    web.answers["/a"] = answer_of(302, b"", "Location: /b")
    web.answers["/b"] = answer_of(200, b"here")
    stays = await call(url=web.url("/a"))
    assert isinstance(stays, Failed)
    assert stays.error_type == "HTTP 302"
    follows = await call(url=web.url("/a"), follow_redirects=True)
    assert follows.result["body"] == "here"


@pytest.mark.parametrize(("most", "count"), [(True, 6), (3, 4)])
async def test_a_chain_of_redirects_ends(web: Web, call: Call, most: Any, count: int) -> None:
    web.answers["/"] = answer_of(302, b"", "Location: /")
    outcome = await call(url=web.url("/"), follow_redirects=most)
    assert isinstance(outcome, Failed)
    assert f"more than {count - 1} redirects" in outcome.error
    assert len(web.seen) == count


@pytest.mark.parametrize(
    ("status", "method", "after"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
        (302, "PUT", "PUT"),
    ],
)
async def test_a_redirect_changes_the_method_as_browsers_do(
    web: Web, call: Call, status: int, method: str, after: str
) -> None:
    web.answers["/a"] = answer_of(status, b"", "Location: /b")
    web.answers["/b"] = answer_of(200)
    await call(url=web.url("/a"), method=method, json={"a": 1}, follow_redirects=1)
    assert web.seen[1].line == f"{after} /b HTTP/1.1"
    assert bool(web.seen[1].body) is (after != "GET")


async def test_credentials_stay_with_the_host_they_were_meant_for(web: Web, call: Call) -> None:
    async with web_server() as other:
        web.answers["/a"] = answer_of(302, b"", f"Location: {other.url('/b')}")
        other.answers["/b"] = answer_of(200)
        headers = {"Authorization": "Basic x", "Cookie": "a=b", "X-Mine": "yes"}
        await call(url=web.url("/a"), headers=headers, follow_redirects=True)
        assert "authorization" in web.seen[0].headers
        [seen] = other.seen
    assert "authorization" not in seen.headers
    assert "cookie" not in seen.headers
    assert seen.headers["x-mine"] == "yes"


# --- TLS -----------------------------------------------------------------------------------------


async def test_tls_is_checked_against_the_name_while_the_address_is_pinned(call: Call) -> None:
    async def resolve(host: str, port: int) -> Any:
        return [HERE.networks[0].network_address]

    trusting = OutboundClient(HERE, resolve)
    trusting._ssl_context = ssl.create_default_context(cafile=CERTIFICATE)
    async with web_server(is_tls=True) as web:
        web.answers["/"] = answer_of(200, b"safe")
        good = await call(trusting, url=f"https://service.test:{web.port}/")
        bad = await call(trusting, url=f"https://other.test:{web.port}/")
        doubtful = await call(
            OutboundClient(HERE, resolve), url=f"https://service.test:{web.port}/"
        )
    assert good.result["body"] == "safe"
    assert web.names[0] == "service.test"
    assert web.seen[0].headers["host"] == f"service.test:{web.port}"
    for outcome in (bad, doubtful):
        assert isinstance(outcome, Failed)
        assert "certificate verify failed" in outcome.error.lower().replace("_", " ")
    assert len(web.seen) == 1


# --- payloads ------------------------------------------------------------------------------------

GOOD = {"url": "https://example.org/"}


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ([], "payload"),
        ({}, "payload.url"),
        ({"url": 3}, "payload.url"),
        ({"url": "example.org"}, "payload.url"),
        ({"url": "ftp://example.org/"}, "payload.url"),
        ({"url": "file:///etc/passwd"}, "payload.url"),
        ({"url": "gopher://127.0.0.1/"}, "payload.url"),
        ({"url": "http:///x"}, "payload.url"),
        ({"url": "http://user:pass@example.org/"}, "payload.url"),
        ({"url": "http://good.org\\@evil.org/"}, "payload.url"),
        ({"url": "http://example.org/\r\nX: y"}, "payload.url"),
        ({"url": "http://example.org/a b"}, "payload.url"),
        ({"url": "http://[fe80::1%25eth0]/"}, "payload.url"),
        ({"url": "http://[::1%lo]/"}, "payload.url"),
        ({"url": "http://%31%32%37.0.0.1/"}, "payload.url"),
        ({"url": "http://0177.0.0.1/"}, "payload.url"),
        ({"url": "http://①②⑦.⓪.⓪.①/"}, "payload.url"),
        ({"url": "http://[::1"}, "payload.url"),
        ({"url": "http://example.org:0/"}, "payload.url"),
        ({"url": "http://example.org:65536/"}, "payload.url"),
        ({"url": "https://example.org/" + "x" * 8000}, "payload.url"),
        (GOOD | {"method": "BREW"}, "payload.method"),
        (GOOD | {"method": 3}, "payload.method"),
        (GOOD | {"headers": []}, "payload.headers"),
        (GOOD | {"headers": {"a b": "c"}}, "payload.headers.a b"),
        (GOOD | {"headers": {"A": "b\r\nC: d"}}, "payload.headers.A"),
        (GOOD | {"headers": {"A": 3}}, "payload.headers.A"),
        (GOOD | {"headers": {"Host": "other"}}, "payload.headers.Host"),
        (GOOD | {"headers": {"transfer-encoding": "chunked"}}, "payload.headers.transfer-encoding"),
        (GOOD | {"headers": {"A": {"secret": "../x"}}}, "payload.headers.A.secret"),
        (GOOD | {"body": {}}, "payload.body"),
        (GOOD | {"body": "a", "json": 1}, "payload.json"),
        (GOOD | {"json": {"a": {"secret": ""}}}, "payload.json.a.secret"),
        (GOOD | {"expected_status": []}, "payload.expected_status"),
        (GOOD | {"expected_status": 99}, "payload.expected_status"),
        (GOOD | {"expected_status": "6xx"}, "payload.expected_status"),
        (GOOD | {"expected_status": True}, "payload.expected_status"),
        (GOOD | {"timeout": 0}, "payload.timeout"),
        (GOOD | {"timeout": "2h"}, "payload.timeout"),
        (GOOD | {"timeout": None}, "payload.timeout"),
        (GOOD | {"follow_redirects": 6}, "payload.follow_redirects"),
        (GOOD | {"follow_redirects": -1}, "payload.follow_redirects"),
        (GOOD | {"verify": False}, "payload.verify"),
    ],
)
def test_a_payload_that_can_never_work_is_refused_by_its_field(payload: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Http(OutboundClient(HERE)).check(payload)
    assert field in [error.field for error in refused.value.errors]
    assert not re.search("pass@|evil", str(refused.value)), "messages do not repeat what was sent"


def test_every_field_at_fault_is_named_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        Http(OutboundClient(HERE)).check({"url": "x", "method": "x", "timeout": "x", "odd": 1})
    fields = {error.field for error in refused.value.errors}
    assert fields == {"payload.url", "payload.method", "payload.timeout", "payload.odd"}
