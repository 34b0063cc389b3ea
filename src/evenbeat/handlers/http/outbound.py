"""Outbound HTTP: to permitted addresses only, bounded in time and size, never through a proxy."""

import asyncio
import ipaddress
import socket
import zlib
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import httpcore2
import httpx2

from evenbeat.core.errors import AddressRefused
from evenbeat.handlers.http.addresses import Address, Addresses

LARGEST_BODY = 10_000_000
# Seconds, so that a host's other addresses are tried within the payload's timeout.
CONNECT_TIMEOUT = 10.0
# Bytes decoded at once: a body may unpack to a thousand times its size.
PIECE = 65_536
# Adding 16 makes zlib expect a gzip header.
ENCODINGS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}

Resolve = Callable[[str, int], Awaitable[list[Address]]]
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request to a checked, absolute URL. Its repr shows no secret."""

    method: str
    url: httpx2.URL = field(repr=False)
    headers: Headers = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response. A body longer than LARGEST_BODY is cut there, and `is_cut`."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_cut: bool


class Unreachable(Exception):
    """No answer: an unknown host, no server at the port, or an answer that is not HTTP."""


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host by the system's resolver, in its order."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unreachable(f"the host {host} cannot be found") from None
    return [ipaddress.ip_address(entry[4][0]) for entry in found]


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the very address that was checked: a second lookup might give another one (DNS
    rebinding). TLS and the Host header still use the name."""

    def __init__(self, addresses: Addresses, resolve: Resolve) -> None:
        self._addresses = addresses
        self._resolve = resolve
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        found = await self._resolve(host, port)
        permitted = [each for each in found if self._addresses.permit(host, each)]
        if not permitted:
            raise AddressRefused(
                f"{host} is at {', '.join(map(str, dict.fromkeys(found))) or 'no address'}, which "
                "is not a public address; to call it, add it to EVENBEAT_ALLOWED_NETWORKS"
            )
        *others, last = permitted
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._connect(address, port)
        return await self._connect(last, port)

    async def _connect(self, address: Address, port: int) -> httpcore2.AsyncNetworkStream:
        return await self._network.connect_tcp(str(address), port, timeout=CONNECT_TIMEOUT)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise AddressRefused("requests go to hosts, not to sockets")


class Decoder(Protocol):
    """The part of zlib's decompressor that is used here."""

    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...


class OutboundClient:
    """Sends requests, each on a connection of its own."""

    def __init__(self, addresses: Addresses, resolve: Resolve = resolve) -> None:
        self._backend = PinnedBackend(addresses, resolve)
        self._ssl_context: Any = None

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send it. Raises AddressRefused or Unreachable. The caller sets the time limit."""
        if self._ssl_context is None and request.url.scheme == "https":
            # Reading the certificates is slow: done once, at the first https request.
            self._ssl_context = await asyncio.to_thread(httpx2.create_ssl_context, trust_env=False)
        async with httpcore2.AsyncConnectionPool(
            ssl_context=self._ssl_context,
            network_backend=self._backend,
            max_connections=1,
            max_keepalive_connections=0,
        ) as pool:
            try:
                async with pool.stream(
                    request.method,
                    httpcore2.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=wire_headers(request),
                    content=request.body or None,
                ) as response:
                    return await read_response(response)
            except (
                httpcore2.NetworkError,
                httpcore2.ProtocolError,
                httpcore2.TimeoutException,
                zlib.error,
            ) as error:
                raise Unreachable(f"{type(error).__name__}: {error}") from error


def wire_headers(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in request.headers}
    ours = [("Host", request.url.netloc.decode())]
    defaults = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": "evenbeat"}
    ours += [(name, value) for name, value in defaults.items() if name.lower() not in given]
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        ours.append(("Content-Length", str(len(request.body))))
    ours.append(("Connection", "close"))
    return [(name.encode(), value.encode("latin-1")) for name, value in (*ours, *request.headers)]


async def read_response(response: httpcore2.Response) -> HttpResponse:
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
    }
    encoding = ENCODINGS.get(headers.get("content-encoding", "").strip().lower())
    decoder = None if encoding is None else zlib.decompressobj(encoding)
    body = bytearray()
    async for chunk in response.aiter_stream():
        for piece in [chunk] if decoder is None else decoded(decoder, chunk):
            body += piece
            if len(body) > LARGEST_BODY:
                return HttpResponse(response.status, headers, bytes(body[:LARGEST_BODY]), True)
    return HttpResponse(response.status, headers, bytes(body), False)


def decoded(decoder: Decoder, chunk: bytes) -> Iterable[bytes]:
    """Decode piece by piece, so that a decompression bomb is not unpacked beyond the limit."""
    while chunk:
        yield decoder.decompress(chunk, PIECE)
        chunk = decoder.unconsumed_tail
