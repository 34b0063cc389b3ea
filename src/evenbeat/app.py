"""The app: settings, database and handlers put together, with one sub-object per concern."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from evenbeat.config import Settings, load
from evenbeat.control.audit import Audit
from evenbeat.control.groups import Groups
from evenbeat.control.history import History
from evenbeat.control.housekeeping import Housekeeping
from evenbeat.control.intake import Intake
from evenbeat.control.jobs import Jobs
from evenbeat.control.listing import Listing
from evenbeat.control.maintenance import MaintenanceSwitch
from evenbeat.control.nodes import Nodes
from evenbeat.control.statistics import Counts
from evenbeat.control.templates import Templates
from evenbeat.control.tokens import Tokens
from evenbeat.control.verify import Report, examine
from evenbeat.core.figures import Figures, Lag
from evenbeat.engine import node
from evenbeat.handlers import built_in
from evenbeat.handlers.function import Called, Function
from evenbeat.observe.metrics import Metrics
from evenbeat.postgres import EmbeddedServer
from evenbeat.store import figures, migrate, nodes
from evenbeat.store.clock import Watch
from evenbeat.store.database import Database

Code = TypeVar("Code", bound=Callable[..., Any])

# One each for the claimer, the recorder, the janitor, and those who look after the rest.
ENGINE_POOL = 6


class Evenbeat:
    """A scheduler on one database: `eb.jobs`, `eb.runs`, and a node to run them.

    Open it before use (`async with Evenbeat() as eb`). Without a `database_url` it brings its
    own PostgreSQL and takes it down again when the last user of the data directory closes.
    """

    def __init__(self, settings: Settings | None = None, **keywords: Any) -> None:
        self.settings = settings or load(**keywords)
        self._functions = Function()
        self.registry = built_in(self.settings, self._functions)
        self.metrics = Metrics()
        self._server = embedded_server(self.settings)
        self._database: Database | None = None

    def configure(self, settings: Settings) -> None:
        """Take these settings where they were chosen by hand, before the app is opened."""
        chosen = {
            name: getattr(each, name)
            for each in (self.settings, settings)
            for name, origin in each.origins.items()
            if origin == "keyword"
        }
        self.settings = load(**chosen)
        self._server = embedded_server(self.settings)

    def handler(self, kind: str) -> Callable[[Code], Code]:
        """Make a function the handler of a kind: `@eb.handler("report")`."""

        def register(function: Code) -> Code:
            self.registry.add(Called(kind, function))
            return function

        return register

    @overload
    def function(self, given: Code) -> Code: ...

    @overload
    def function(self, given: str) -> Callable[[Code], Code]: ...

    def function(self, given: Any) -> Any:
        """Let jobs of kind `function` call it: `@eb.function`, or with a name of your own."""

        def register(function: Code) -> Code:
            name = given if isinstance(given, str) else getattr(function, "__name__", "")
            self._functions.add(name, function)
            if self._functions.kind not in self.registry.served:
                self.registry.add(self._functions)
            return function

        return register if isinstance(given, str) else register(given)

    async def open(self, *, migrated: bool = False) -> Self:
        """Connect; with `migrated`, bring the schema up to date first."""
        url = await self.start_database()
        if migrated:
            await migrate.migrate(url)
        database = Database(
            url,
            clock=self.settings.clock,
            pool_size=self.settings.pool_size,
            pooler=self.settings.pooler,
        )
        await database.open()
        self._database = database
        self._watch = Watch(database)
        self.jobs = Jobs(database, self.registry)
        self.intake = Intake(database, self.jobs)
        self.runs = History(database)
        self.groups = Groups(database)
        self.listing = Listing(database)
        self.statistics = Counts(database)
        self.templates = Templates(database)
        self.nodes = Nodes(database)
        self.audit = Audit(database)
        self.maintenance = MaintenanceSwitch(database)
        self.housekeeping = Housekeeping(database)
        self.tokens = Tokens(database, self.settings)
        return self

    async def start_database(self) -> str:
        """The URL of a database that answers: the external one, or the embedded server's."""
        if self._server is not None:
            await asyncio.to_thread(self._server.acquire)
            return self._server.url()
        external = self.settings.database_url
        return external.get_secret_value() if external else ""

    def has_database(self) -> bool:
        """Whether there is one to connect to without starting a server: an external one is."""
        return self._server is None or self._server.pid is not None

    async def close(self) -> None:
        if self._database is not None:
            await self.jobs.close()
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
            pooler=self.settings.pooler,
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

    async def now(self) -> datetime:
        """The database's time."""
        return await self._watch.now()

    async def lag(self) -> Lag:
        """How late the schedule is at this moment."""
        return await figures.lag(self.database)

    async def figures(self) -> Figures | None:
        """What the whole cluster is like; None before a node has looked for the first time."""
        return await figures.read(self.database)

    async def count_live_nodes(self) -> int:
        return await nodes.count_live(self.database)


def embedded_server(settings: Settings) -> EmbeddedServer | None:
    if settings.database_url is not None:
        return None
    return EmbeddedServer(settings.data_dir, port=settings.pg_port, bin_dir=settings.pg_bin)
