"""What comes over a connection before there is a request: bounded, and read as it is meant."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from evenbeat.core.ops.access import Role
from evenbeat.web.protocol import LARGEST_HEAD
from tests.support.serving import token_for

HEAD = b"GET /livez HTTP/1.1\r\nhost: here\r\n"
TASK = b'{"type": "echo", "payload": 1, "runAt": "2100-01-01T00:00:00Z"}'


class Wire:
    """One connection, and the bytes on it."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=30)
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def status(self) -> int:
        """Of the next answer, which is read to its end."""
        line = self._file.readline()
        length = 0
        while header := self._file.readline().strip():
            name, _, text = header.partition(b": ")
            length = int(text) if name == b"content-length" else length
        self._file.read(length)
        return int(line.split()[1])

    def is_over(self) -> bool:
        """Whether the server has ended it; waits until it says something."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def takes(self, piece: bytes, most: int = 100_000_000) -> bool:
        """Whether so many bytes are taken, sent piece by piece."""
        sent = 0
        try:
            while sent < most:
                self.send(piece)
                sent += len(piece)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    made = Wire(address)
    yield made
    made.close()


def test_headers_of_the_usual_size_are_read(wire: Wire) -> None:
    for _ in range(2):
        wire.send(HEAD + b"x: " + b"y" * (LARGEST_HEAD - 100) + b"\r\n\r\n")
        assert wire.status() == 200


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"x: " + b"y" * LARGEST_HEAD + b"\r\n\r\n",
        HEAD + b"".join(b"x%d: y\r\n" % n for n in range(20_000)) + b"\r\n",
        b"GET /" + b"x" * LARGEST_HEAD + b" HTTP/1.1\r\nhost: here\r\n\r\n",
    ],
    ids=["one", "many", "path"],
)
def test_larger_ones_are_refused_and_the_connection_ends(wire: Wire, head: bytes) -> None:
    wire.send(head)
    assert wire.status() == 431
    assert wire.is_over()


@pytest.mark.parametrize("start", [HEAD, HEAD + b"x: ", b"GET /"])
def test_a_header_that_never_ends_is_not_gathered(wire: Wire, start: bytes) -> None:
    wire.send(start)
    assert not wire.takes(b"y" * 10_000)


@pytest.mark.parametrize("piece", [b"x: y\r\n", b"y" * 10_000])
def test_trailers_that_never_end_are_not_gathered(wire: Wire, piece: bytes) -> None:
    wire.send(b"POST /tasks HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
    assert not wire.takes(piece * (10_000 // len(piece)))


def test_what_comes_behind_a_body_is_no_header(wire: Wire) -> None:
    token = token_for(Role.OPERATOR).encode()
    start = b"POST /tasks HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"
    sent_twice = b"authorization: Bearer " + token + b"\r\n"
    body = b"%x\r\n%b\r\n0\r\n" % (len(TASK), TASK)
    chunked = b"transfer-encoding: chunked\r\n"
    wire.send(start + chunked + b"\r\n" + body + sent_twice + b"\r\n")
    assert wire.status() == 401
    wire.send(start + chunked + sent_twice + b"\r\n" + body + b"x: y\r\n\r\n")
    assert wire.status() == 201


def test_a_client_that_would_rather_speak_http_2_is_answered_again_and_again(wire: Wire) -> None:
    token = token_for(Role.OPERATOR).encode()
    for _ in range(3):
        wire.send(
            b"POST /tasks HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"
            b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
            b"authorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b" % (token, len(TASK), TASK)
        )
        assert wire.status() == 201
    wire.send(HEAD + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n")
    assert wire.status() == 200
    wire.send(HEAD + b"\r\n")
    assert wire.status() == 200


def test_many_wishes_for_another_protocol_at_once_are_all_answered(wire: Wire) -> None:
    """More than Python could call itself, were each read inside the one before it."""
    wished = HEAD + b"connection: upgrade\r\nupgrade: x\r\n\r\n"
    wire.send(wished * 1500 + wished.replace(b"/livez", b"/no-such-place"))
    assert [wire.status() for _ in range(1501)] == [200] * 1500 + [404]


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_wish_for_another_protocol_leaves_the_others_as_they_are(
    wire: Wire, version: bytes
) -> None:
    """Of HTTP/1.0, and of whoever says so, a connection ends with the answer."""
    asks = b"upgrade" if version == b"1.0" else b"close, upgrade"
    wished = HEAD.replace(b"1.1", version) + b"connection: " + asks + b"\r\nupgrade: x\r\n\r\n"
    # What comes behind it is passed over, and no fault of the first.
    wire.send(wished + HEAD + b"\r\n")
    assert wire.status() == 200
    assert wire.is_over()


def test_a_client_of_http_1_0_need_not_name_the_host(wire: Wire) -> None:
    wire.send(b"GET /livez HTTP/1.0\r\n\r\n")
    assert wire.status() == 200


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_two_hosts_are_refused(wire: Wire, version: bytes) -> None:
    wire.send(HEAD.replace(b"1.1", version) + b"Host: there\r\n\r\n")
    assert wire.status() == 400
    assert wire.is_over()


def test_a_request_of_http_1_1_without_a_host_is_refused(wire: Wire) -> None:
    wire.send(b"GET /livez HTTP/1.1\r\nx: y\r\n\r\n")
    assert wire.status() == 400
    assert wire.is_over()


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        (b"POST /tasks", b"content-length: 1\r\ntransfer-encoding: chunked"),
        (b"POST /tasks", b"content-length: 1\r\ncontent-length: 2"),
        (b"POST /tasks", b"transfer-encoding: chunked, identity"),
        (b"GET /livez", b"x y: z"),
        (b"GET /livez", b"x : y"),
        (b"GET \xff", b"x: y"),
        (b"CONNECT a:1", b"x: y"),
        (b"CONNECT /livez", b"x: y"),
        (b"CONNECT *", b"x: y"),
        (b"nonsense", b"x: y"),
    ],
)
def test_what_two_servers_might_read_differently_is_refused(
    wire: Wire, line: bytes, headers: bytes
) -> None:
    wire.send(line + b" HTTP/1.1\r\nhost: here\r\n" + headers + b"\r\n\r\n")
    assert wire.status() == 400
    assert wire.is_over()
