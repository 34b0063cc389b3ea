"""A web server that answers with the bytes a test has set, and records the requests."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

CERTIFICATE = Path(__file__).with_name("service.test.pem")


@dataclass(frozen=True)
class Seen:
    """One request as it was received."""

    line: str
    headers: dict[str, str]
    body: bytes


Say = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Web:
    """Paths and their answers: bytes, or a function that writes them."""

    port: int = 0
    answers: dict[str, bytes | Say] = field(default_factory=dict[str, "bytes | Say"])
    seen: list[Seen] = field(default_factory=list[Seen])
    names: list[str | None] = field(default_factory=list["str | None"])
    talks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.talks.add(asyncio.ensure_future(self.talk(reader, writer)))

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        named = [each.split(": ", 1) for each in rest if each]
        headers = {name.lower(): value for name, value in named}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.seen.append(Seen(line, headers, body))
        answer = self.answers.get(line.split()[1], answer_of(404, b"nothing here"))
        if isinstance(answer, bytes):
            writer.write(answer)
        else:
            await answer(writer)
        await writer.drain()


def answer_of(status: int, body: bytes = b"", *headers: str) -> bytes:
    head = "".join(f"{each}\r\n" for each in headers)
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body


@contextlib.asynccontextmanager
async def web_server(host: str = "127.0.0.1", *, is_tls: bool = False) -> AsyncGenerator[Web]:
    web = Web()
    context = None
    if is_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        context.sni_callback = lambda _socket, name, _context: web.names.append(name)
    server = await asyncio.start_server(web.serve, host, 0, ssl=context)
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        server.close()
        for talk in web.talks:
            talk.cancel()
        await asyncio.gather(*web.talks, return_exceptions=True)
