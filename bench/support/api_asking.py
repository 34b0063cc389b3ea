"""Requests over connections that stay open, with as little work of our own as possible."""

import asyncio
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

LINE_END = b"\r\n\r\n"
LENGTH = b"content-length: "


@dataclass(frozen=True, slots=True)
class Speed:
    """How many answers came in a second, how long one took, and how many were refusals."""

    per_second: float
    median_ms: float
    refused: int


class Target:
    """A server, and what it is asked with."""

    def __init__(self, url: str, token: str = "") -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._token = token

    def request(self, method: str, path: str, body: object = None) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\n"
            f"authorization: Bearer {self._token}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content

    async def measure(
        self, requests: Callable[[], bytes] | bytes, *, connections: int, seconds: float
    ) -> Speed:
        """Ask on so many connections for so long; any answer but the one wanted or 503 ends it."""
        made = itertools.repeat(requests) if isinstance(requests, bytes) else called(requests)
        ends_at = time.monotonic() + seconds
        began = time.perf_counter()
        lists = await asyncio.gather(*(self._ask(made, ends_at) for _ in range(connections)))
        elapsed = time.perf_counter() - began
        taken = [each for times in lists for each in times if each is not None]
        refused = sum(times.count(None) for times in lists)
        median = statistics.median(taken) if taken else math.nan
        return Speed(len(taken) / elapsed, median * 1000, refused)

    async def _ask(self, requests: Iterator[bytes], ends_at: float) -> list[float | None]:
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=2**24)
        taken: list[float | None] = []
        try:
            while time.monotonic() < ends_at:
                request = next(requests)
                began = time.perf_counter()
                writer.write(request)
                is_answered = await read_answer(reader) is not None
                taken.append(time.perf_counter() - began if is_answered else None)
        finally:
            writer.close()
        return taken

    async def ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=2**24)
        try:
            writer.write(self.request(method, path, body))
            return json.loads(await read_answer(reader) or b"{}")
        finally:
            writer.close()


def called(make: Callable[[], bytes]) -> Iterator[bytes]:
    while True:
        yield make()


async def read_answer(reader: asyncio.StreamReader) -> bytes | None:
    """The body of an answer; None if the server is too busy for one."""
    head = (await reader.readuntil(LINE_END)).lower()
    _, _, after = head.partition(LENGTH)
    body = await reader.readexactly(int(after.partition(b"\r\n")[0]))
    if head.startswith(b"http/1.1 503"):
        return None
    if not head.startswith((b"http/1.1 200", b"http/1.1 201")):
        raise RuntimeError(f"{head[:40]!r}: {body[:500]!r}")
    return body
