"""A proxy in front of PostgreSQL that cuts a connection at a statement of the test's choice."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from urllib.parse import parse_qs, urlsplit, urlunsplit


class CuttingProxy:
    """Passes bytes on until a request contains the text given to `cut_on`.

    That request is passed on and its answer dropped (`"answer"`), or it is not passed on
    (`"request"`). Then both sides of the connection are closed; later requests pass again. With
    `is_closed` the proxy accepts no new connection.
    """

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._writers: set[asyncio.StreamWriter] = set()
        self._needle = b""
        self._where = "answer"
        self.is_closed = False
        self.closes_after_cut = False
        self.cuts = 0
        self.url = ""

    def cut_on(self, text: str, where: str) -> None:
        self._needle, self._where = text.encode(), where

    async def serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self.is_closed:
            back.close()
            return
        answers, forth = await self._connect()
        self._writers |= {back, forth}
        answering = asyncio.ensure_future(self._answer(answers, back))
        with contextlib.suppress(ConnectionError):
            while data := await client.read(65536):
                if self._needle and self._needle in data:
                    await self._cut(data, answers, forth, answering)
                    break
                forth.write(data)
                await forth.drain()
        answering.cancel()
        for writer in (back, forth):
            self._writers.discard(writer)
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        query = parse_qs(self._target.query)
        if "host" in query:
            port = query.get("port", ["5432"])[0]
            return await asyncio.open_unix_connection(f"{query['host'][0]}/.s.PGSQL.{port}")
        return await asyncio.open_connection(self._target.hostname, self._target.port or 5432)

    async def _answer(self, answers: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await answers.read(65536):
                back.write(data)
                await back.drain()
        back.close()

    async def _cut(
        self,
        data: bytes,
        answers: asyncio.StreamReader,
        forth: asyncio.StreamWriter,
        answering: asyncio.Future[None],
    ) -> None:
        self._needle, self.cuts = b"", self.cuts + 1
        answering.cancel()
        self.is_closed = self.is_closed or self.closes_after_cut
        if self._where == "answer":
            # The server has executed it once it begins to answer; the answer is dropped.
            await asyncio.wait([answering])
            forth.write(data)
            await answers.read(1)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@contextlib.asynccontextmanager
async def cutting_proxy(url: str) -> AsyncGenerator[CuttingProxy]:
    proxy = CuttingProxy(url)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0] or parts.username or "evenbeat"
    proxy.url = urlunsplit(("postgresql", f"{login}@127.0.0.1:{port}", parts.path, "", ""))
    try:
        yield proxy
    finally:
        server.close()
        proxy.close()
        await server.wait_closed()
