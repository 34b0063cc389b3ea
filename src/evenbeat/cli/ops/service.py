"""`up`, `server` and `worker`: one process, from its start to its graceful end."""

import asyncio
import contextlib
import os
import shlex
import socket
from collections.abc import Collection

import typer

from evenbeat import server
from evenbeat.cli.shell.user_app import find_app
from evenbeat.config import Settings
from evenbeat.engine import process
from evenbeat.observe import log
from evenbeat.web import worker_site

SCHEMA_CHECK = 0.5


def run(settings: Settings, parts: Collection[str]) -> None:
    """Run these parts, `api` and `node`, until a signal. A second signal ends them at once."""
    log.configure(settings)
    bound = server.bind(settings) if "api" in parts else None
    # A process with the API serves its metrics there.
    has_metrics_port = bound is None and settings.metrics_port is not None
    metrics = server.bind(settings, "metrics_port") if has_metrics_port else None
    # Service loads the user's app: its own set-up of traces then comes after ours.
    process.run_until_signal(
        lambda stopping: Service(settings, parts, bound, metrics).run(stopping), ends_process=True
    )


class Service:
    """One process: an API, a node or both, and the database if it is the embedded one."""

    def __init__(
        self,
        settings: Settings,
        parts: Collection[str],
        bound: socket.socket | None,
        metrics: socket.socket | None = None,
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._starting = set(parts)
        self._bound = bound
        self._metrics = metrics
        self._app = find_app(settings)

    async def run(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        log.get_logger().info(log.STARTING)
        try:
            await self._app.open(migrated=self._bound is not None)
            await self._work()
        finally:
            await self._app.close()
        log.get_logger().info(log.STOPPED)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as parts:
            supervising = parts.create_task(self._app.supervise())
            try:
                await self._wait_for_schema()
                async with asyncio.TaskGroup() as working:
                    if self._bound is not None:
                        site = server.build_site(self._app)
                        working.create_task(
                            server.serve(site, self._bound, self._stopping, self._on_started)
                        )
                    if self._metrics is not None:
                        site = worker_site.build_worker_site(self._app)
                        log.get_logger().info(log.WATCHED, url=address_of(self._metrics))
                        working.create_task(server.serve(site, self._metrics, self._stopping))
                    if "node" in self._parts:
                        working.create_task(self._app.run_node(self._stopping, self._on_joined))
            finally:
                supervising.cancel()

    async def _wait_for_schema(self) -> None:
        """Wait for a current schema. A process with the API has just migrated it."""
        is_logged = False
        while not self._stopping.is_set():
            status = await self._app.schema_status()
            if status.is_current:
                await self._app.prepare()
                return
            status.check()
            if not is_logged:
                log.get_logger().info(log.SCHEMA_AWAITED)
                is_logged = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), SCHEMA_CHECK)

    def _on_started(self) -> None:
        self._log_when_ready("api")

    def _on_joined(self) -> None:
        self._log_when_ready("node")

    def _log_when_ready(self, part: str) -> None:
        """Log READY once, when the last part is ready. A node may join again later."""
        if part not in self._starting:
            return
        self._starting.remove(part)
        if self._starting or self._stopping.is_set():
            return
        if self._bound is None:
            log.get_logger().info(log.READY)
            return
        url = address_of(self._bound)
        log.get_logger().info(log.READY, url=url)
        if "node" in self._parts:
            self._print_welcome(url)

    def _print_welcome(self, url: str) -> None:
        typer.echo(f"The API is at {url}/api/v1")
        if self._settings.auth == "off":
            typer.echo("It needs no token: auth is off")
            return
        # The generated secret is in the data directory: `evenbeat token` needs the same one.
        is_given = self._settings.origins["data_dir"] == "keyword"
        option = f" --data-dir {shlex.quote(str(self._settings.data_dir))}" if is_given else ""
        # In a checkout `evenbeat` is not on the PATH: ./dev says how it is called there.
        command = os.environ.get("DEV_COMMAND", "evenbeat")
        typer.echo(f"Make a token for it with: {command} token{option}")


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
