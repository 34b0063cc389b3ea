"""A network that a test can cut: a proxy between Evenbeat and PostgreSQL."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from urllib.parse import parse_qs, unquote, urlsplit

PIECE = 65536
# The message of a client that disconnects; PostgreSQL does not answer it.
GOODBYE = b"X\x00\x00\x00\x04"


class Network:
    """Carries bytes both ways.

    `takes` and `answers` switch the two directions off: bytes are dropped without a notice to
    either side, as in a network that was cut. `delay` (seconds) holds every piece back. `loses` are
    bytes: the first answer that contains them, or that follows a request with them, is dropped, and
    so is everything later on that connection. `unheard` counts the requests on such connections.
    """

    def __init__(self, upstream: str) -> None:
        self.takes = True
        self.answers = True
        self.delay = 0.0
        self.loses: bytes | None = None
        self.port = 0
        self.unheard = 0
        self._upstream = urlsplit(upstream)
        self._writers: set[asyncio.StreamWriter] = set()
        self._lost: set[asyncio.Event] = set()
        self._carriers: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The database as seen from this side of the network."""
        auth = self._upstream.netloc.rpartition("@")[0]
        return f"postgresql://{auth}@127.0.0.1:{self.port}{self._upstream.path}"

    def cut(self) -> None:
        self.takes = self.answers = False

    def heal(self) -> None:
        self.takes = self.answers = True

    def forget(self) -> None:
        """Drop all later answers on the present connections, silently; new connections work."""
        for lost in self._lost:
            lost.set()

    def hang_up(self) -> None:
        """End every connection, so that both sides notice."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carriers.add(task)
        task.add_done_callback(self._carriers.discard)
        try:
            await self._carry_both_ways(reader, writer)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()

    async def _carry_both_ways(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.add(writer)
        # While the network is cut, new connections get no answer either.
        while not (self.takes and self.answers):
            await asyncio.sleep(0.05)
            if reader.at_eof() or writer.is_closing():
                writer.transport.abort()
                return
        there, back = await self._dial()
        self._writers.add(back)
        lost = asyncio.Event()
        self._lost.add(lost)
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._carry(reader, back, "takes", lost))
                ways.create_task(self._carry(there, writer, "answers", lost))
        finally:
            self._lost.discard(lost)
            for each in (writer, back):
                self._writers.discard(each)
                each.transport.abort()

    async def _carry(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        way: str,
        lost: asyncio.Event,
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(PIECE):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self.loses is not None and self.loses in piece:
                    self.loses = None
                    lost.set()
                if way == "takes" and lost.is_set() and piece != GOODBYE:
                    self.unheard += 1
                if getattr(self, way) and not (way == "answers" and lost.is_set()):
                    target.write(piece)
                    await target.drain()
        # In a network that was cut, the end of a connection does not arrive either.
        while not getattr(self, way):  # noqa: ASYNC110 - a test sets it, as a plain value
            await asyncio.sleep(0.05)
        target.transport.abort()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        query = parse_qs(self._upstream.query)
        if "host" in query:
            port = query.get("port", ["5432"])[0]
            return await asyncio.open_unix_connection(f"{query['host'][0]}/.s.PGSQL.{port}")
        host = unquote(self._upstream.hostname or "127.0.0.1")
        return await asyncio.open_connection(host, self._upstream.port or 5432)

    async def close(self) -> None:
        self.hang_up()
        carriers = list(self._carriers)
        for task in carriers:
            task.cancel()
        await asyncio.gather(*carriers, return_exceptions=True)


@contextlib.asynccontextmanager
async def network(upstream: str) -> AsyncGenerator[Network]:
    """A network before the database of this URL, until the end of the block."""
    made = Network(upstream)
    server = await asyncio.start_server(made._accept, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.close()
