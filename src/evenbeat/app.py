"""The app: settings, database and handlers put together, with one sub-object per concern."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from evenbeat.config import Settings, load
from evenbeat.control.groups import Groups
from evenbeat.control.history import History
from evenbeat.control.jobs import Jobs
from evenbeat.control.verify import Report, examine
from evenbeat.core.figures import Figures, Lag
from evenbeat.core.registry import Registry
from evenbeat.engine import node
from evenbeat.handlers import built_in
from evenbeat.observe.metrics import Metrics
from evenbeat.postgres import EmbeddedServer
from evenbeat.store import migrate, nodes
from evenbeat.store.database import Database

# One each for the claimer, the recorder, and those who look after the rest.
ENGINE_POOL = 5


class Evenbeat:
    """A scheduler on one database: `eb.jobs`, `eb.runs`, and a node to run them.

    Open it before use (`async with Evenbeat() as eb`). Without a `database_url` it brings its
    own PostgreSQL and takes it down again when the last user of the data directory closes.
    """

    def __init__(self, settings: Settings | None = None, **keywords: Any) -> None:
        self.settings = settings or load(**keywords)
        self.registry = Registry(built_in())
        self.metrics = Metrics()
        self._server = embedded_server(self.settings)
        self._database: Database | None = None

    async def open(self, *, migrated: bool = False) -> Self:
        """Connect; with `migrated`, bring the schema up to date first."""
        url = await self.start_database()
        if migrated:
            await migrate.migrate(url)
        database = Database(url, clock=self.settings.clock, pool_size=self.settings.pool_size)
        await database.open()
        self._database = database
        self.jobs = Jobs(database, self.registry)
        self.runs = History(database)
        self.groups = Groups(database)
        return self

    async def start_database(self) -> str:
        """The URL of a database that answers: the external one, or the embedded server's."""
        if self._server is not None:
            await asyncio.to_thread(self._server.acquire)
            return self._server.url()
        external = self.settings.database_url
        return external.get_secret_value() if external else ""

    async def close(self) -> None:
        if self._database is not None:
            await self._database.close()
            self._database = None
        if self._server is not None:
            await asyncio.to_thread(self._server.release)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def database(self) -> Database:
        if self._database is None:
            raise RuntimeError("open the app before using it: `async with Evenbeat() as eb`")
        return self._database

    async def run_node(
        self, stopping: asyncio.Event, on_joined: Callable[[], None] = lambda: None
    ) -> None:
        """Run due jobs until `stopping` is set; then drain."""
        pool = Database(
            self.database.url,
            clock=self.settings.clock,
            pool_size=ENGINE_POOL,
            is_for_engine=True,
        )
        await pool.open()
        try:
            await node.run(pool, self.registry, self.settings, stopping, on_joined, self.metrics)
        finally:
            await pool.close()

    async def supervise(self) -> None:
        """Keep the embedded server running, until cancelled."""
        if self._server is not None:
            await self._server.supervise()

    async def prepare_kinds(self) -> None:
        """Make our kinds known, so that jobs of them can be added before any node has joined."""
        await nodes.open_lanes(self.database, list(self.registry))

    async def verify(self) -> Report:
        """Look for anything in the database that must never be there."""
        return await examine(self.database)

    async def schema_status(self) -> migrate.Status:
        return await migrate.read_status(self.database)

    async def lag(self) -> Lag:
        """How late the schedule is at this moment."""
        return Lag(timedelta(0), timedelta(0), await self.count_live_nodes(), None)

    async def figures(self) -> Figures | None:
        """What the whole cluster is like; None before a node has looked for the first time."""
        return None

    async def count_live_nodes(self) -> int:
        return await nodes.count_live(self.database)


def embedded_server(settings: Settings) -> EmbeddedServer | None:
    if settings.database_url is not None:
        return None
    return EmbeddedServer(settings.data_dir, port=settings.pg_port, bin_dir=settings.pg_bin)
