"""The app: settings, database and handlers put together, with one sub-object per concern."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from types import TracebackType
from typing import Any, Self, Unpack

from evenbeat.config import Settings, load
from evenbeat.control.balance.balance import Balance
from evenbeat.control.jobs import declared_jobs
from evenbeat.control.jobs.groups import Groups
from evenbeat.control.jobs.imports import Imports
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.control.jobs.listing import Listing
from evenbeat.control.jobs.templates import Templates
from evenbeat.control.ops.audit import Audit
from evenbeat.control.ops.housekeeping import Housekeeping
from evenbeat.control.ops.maintenance import MaintenanceSwitch
from evenbeat.control.ops.nodes import Nodes
from evenbeat.control.ops.statistics import StatisticsQueries
from evenbeat.control.ops.tokens import Tokens
from evenbeat.control.ops.verify import VerifyReport, build_verify_report
from evenbeat.control.runs.dead_letters import DeadLetters
from evenbeat.control.runs.history import History
from evenbeat.core.errors import MigrationFailed, NotPermitted
from evenbeat.core.jobs.definition import JobOptions, define, schedule_once
from evenbeat.core.jobs.model import Job
from evenbeat.core.ops.figures import ClusterFigures, ScheduleLag
from evenbeat.engine import node, process
from evenbeat.handlers.user_code import UserCode
from evenbeat.observe import log
from evenbeat.observe.metrics import Metrics
from evenbeat.placement.placer import Placer
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import Database, DatabaseClock
from evenbeat.store.ops import figures, nodes

NOT_OPEN = "open the app before using it: `async with eb`, `eb.worker()` or `await eb.start()`"
# One each for the claimer, the recorder and the janitor, three for the other loops of a node.
ENGINE_POOL = 6


class Evenbeat(UserCode):
    """A scheduler on one database: `eb.jobs`, `eb.runs`, and a node to run them.

    `async with eb` connects, to add jobs and to read them; `async with eb.worker()` runs jobs as
    well, and `eb.run()` does nothing else. Without a `database_url` it starts its own PostgreSQL,
    and stops it when the last process that uses the data directory closes.
    """

    def __init__(self, settings: Settings | None = None, **keywords: Any) -> None:
        self.settings = settings or load(**keywords)
        super().__init__(self.settings)
        self.metrics = Metrics()
        self._server = embedded_server(self.settings)
        self._database: Database | None = None
        self._background: process.BackgroundWork | None = None

    def configure(self, settings: Settings) -> None:
        """Replace the settings by those that were given as keywords, here or before."""
        chosen = {
            name: getattr(each, name)
            for each in (self.settings, settings)
            for name, origin in each.origins.items()
            if origin == "keyword"
        }
        self.settings = load(**chosen)
        self._server = embedded_server(self.settings)

    async def enqueue(
        self,
        what: str | Callable[..., Any],
        payload: Any = None,
        *,
        run_at: datetime | None = None,
        dedupe_key: str | None = None,
        connection: Any = None,
        **options: Unpack[JobOptions],
    ) -> Job:
        """Run a kind, or a function of this app, once: now, or at an instant.

        For a function of kind `function` the payload is its keyword arguments.
        """
        if not self.is_open:
            raise RuntimeError(NOT_OPEN)
        kind, given = self.call(what, payload)
        job = define(kind, schedule_once(run_at), payload=given, **options)
        return await self.jobs.add(job, dedupe_key=dedupe_key, connection=connection)

    async def open(self, *, migrated: bool = False) -> Self:
        """Connect; with `migrated`, bring the schema up to date first."""
        url = await self.start_database()
        if migrated:
            await migrations.migrate(url)
        if self.is_open:
            return self
        database = Database(
            url,
            clock=self.settings.clock,
            pool_size=self.settings.pool_size,
            pooler=self.settings.pooler,
        )
        await database.open()
        self._database = database
        self._clock = DatabaseClock(database)
        self.placement = Placer(database, self.settings.balancing, self.metrics)
        self.jobs = Jobs(database, self.registry, self.placement)
        self.imports = Imports(database, self.jobs)
        self.runs = History(database)
        self.groups = Groups(database)
        self.dead_letters = DeadLetters(database, self.jobs)
        self.listing = Listing(database)
        self.statistics = StatisticsQueries(database)
        self.templates = Templates(database)
        self.nodes = Nodes(database)
        self.balance = Balance(database, self.placement, self.settings)
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
        """Whether a database can be reached without starting the embedded server."""
        return self._server is None or self._server.pid is not None

    async def close(self) -> None:
        await self.disconnect()
        await asyncio.to_thread(self.release_server)

    async def disconnect(self) -> None:
        if self._database is not None:
            await self.jobs.close()
            await self._database.close()
            self._database = None

    def release_server(self) -> None:
        """Stop using the embedded server; as its last user, wait until it has stopped."""
        if self._server is not None:
            self._server.release()

    def forget(self) -> None:
        """After a fork: the parent's connections are neither used nor closed here."""
        # Kept alive: collecting them would close the parent's sockets.
        self._of_parent = (self._database, self._server)
        self._database, self._server = None, embedded_server(self.settings)

    @property
    def is_open(self) -> bool:
        return self._database is not None

    async def __aenter__(self) -> Self:
        try:
            await self.open()
            await self._check_schema()
        except BaseException:
            # The embedded server may be running already when something else fails.
            await self.close()
            raise
        return self

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
            raise RuntimeError(NOT_OPEN)
        return self._database

    async def start(self, *, migrated: bool = True) -> Self:
        """Open, store the jobs that the code declares, and run due jobs in the background.

        Returns when the node has joined; `stop` ends it.
        """
        if self._background is not None:
            raise RuntimeError("the app is started already: `stop` it first")
        background = process.BackgroundWork()
        try:
            await self.open(migrated=migrated)
            await self.prepare()
            await background.begin(self._run_supervised)
        except BaseException:
            await self.close()
            raise
        self._background = background
        return self

    async def stop(self) -> None:
        """Let current runs finish, hand back those that take too long, and close."""
        background, self._background = self._background, None
        try:
            if background is not None:
                await background.end()
        finally:
            await self.close()

    @contextlib.asynccontextmanager
    async def worker(self, *, migrated: bool = True) -> AsyncGenerator[Self]:
        """The app with a running node until the block ends, as for a web application's lifespan."""
        await self.start(migrated=migrated)
        try:
            yield self
        finally:
            await self.stop()

    def run(self) -> None:
        """Run a node until Ctrl-C or SIGTERM: the last line of a script."""
        log.configure(self.settings)
        process.run_until_signal(self._run)

    async def _run(self, stopping: asyncio.Event) -> None:
        log.get_logger().info(log.STARTING)
        try:
            await self.open(migrated=True)
            await self.prepare()
            await self._run_supervised(stopping, lambda: log.get_logger().info(log.READY))
        finally:
            await self.close()
        log.get_logger().info(log.STOPPED)

    async def _run_supervised(self, stopping: asyncio.Event, on_joined: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as parts:
            supervising = parts.create_task(self.supervise())
            try:
                await self.run_node(stopping, on_joined)
            finally:
                supervising.cancel()

    async def run_node(
        self, stopping: asyncio.Event, on_joined: Callable[[], None] = lambda: None
    ) -> None:
        """Run due jobs until `stopping` is set; then drain."""
        if stopping.is_set():
            # Stopped while it waited for the schema, which may not be there yet.
            return
        pool = Database(
            self.database.url,
            clock=self.settings.clock,
            pool_size=ENGINE_POOL,
            is_for_engine=True,
            pooler=self.settings.pooler,
        )
        await pool.open()
        try:
            await self._serve_sql_functions(pool)
            await node.run(pool, self.registry, self.settings, stopping, on_joined, self.metrics)
        finally:
            await pool.close()

    async def _serve_sql_functions(self, pool: Database) -> None:
        try:
            await self._sql_functions.serve(pool, self.settings)
        except NotPermitted as error:
            log.get_logger().warning(log.SQL_NOT_SERVED, reason=str(error))
        else:
            if self._sql_functions.kind not in self.registry.served:
                self.registry.add(self._sql_functions)

    async def supervise(self) -> None:
        """Keep the embedded server running, until cancelled."""
        if self._server is not None:
            await self._server.supervise()

    async def prepare(self) -> None:
        """Store our kinds, and the jobs that the code declares."""
        await self.prepare_kinds()
        await declared_jobs.put_declared_jobs(self.jobs, self.listing, self.declared, self.modules)

    async def prepare_kinds(self) -> None:
        """Store our kinds, so that jobs of them can be added before any node has joined."""
        await nodes.open_lanes(self.database, list(self.registry))

    async def verify(self) -> VerifyReport:
        """Check the database for everything that must never be there."""
        return await build_verify_report(self.database)

    async def _check_schema(self) -> None:
        """Raise MigrationFailed without a schema. Older and newer ones pass: updates roll."""
        if not (await self.schema_status()).applied:
            raise MigrationFailed("the schema is not up to date: run `evenbeat db migrate`")

    async def schema_status(self) -> migrations.SchemaStatus:
        return await migrations.read_schema_status(self.database)

    async def now(self) -> datetime:
        """The database's time."""
        return await self._clock.now()

    async def lag(self) -> ScheduleLag:
        """How late the schedule is at this moment."""
        return await figures.read_lag(self.database)

    async def figures(self) -> ClusterFigures | None:
        """Figures of the whole cluster; None before a node has taken them for the first time."""
        return await figures.read_figures(self.database)


def embedded_server(settings: Settings) -> EmbeddedServer | None:
    if settings.database_url is not None:
        return None
    return EmbeddedServer(settings.data_dir, port=settings.pg_port, bin_dir=settings.pg_bin)
