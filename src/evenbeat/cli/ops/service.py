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
    """Run these parts, `api` and `node`, until a signal comes. The second one waits for nothing."""
    log.configure(settings)
    bound = server.bind(settings) if "api" in parts else None
    # Who serves the API shows its metrics there.
    is_watched = bound is None and settings.metrics_port is not None
    seen = server.bind(settings, "metrics_port") if is_watched else None
    # The user's app is loaded in there: what it does to traces comes after ours.
    process.run_until_signal(
        lambda stopping: Service(settings, parts, bound, seen).run(stopping), ends_process=True
    )


class Service:
    """The parts of one process: perhaps an API, perhaps a node, and the database below."""

    def __init__(
        self,
        settings: Settings,
        parts: Collection[str],
        bound: socket.socket | None,
        seen: socket.socket | None = None,
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._awaited = set(parts)
        self._bound = bound
        self._seen = seen
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
                await self._schema()
                async with asyncio.TaskGroup() as working:
                    if self._bound is not None:
                        site = server.build_site(self._app)
                        working.create_task(
                            server.serve(site, self._bound, self._stopping, self._on_started)
                        )
                    if self._seen is not None:
                        face = worker_site.build_worker_site(self._app)
                        log.get_logger().info(log.WATCHED, url=address(self._seen))
                        working.create_task(server.serve(face, self._seen, self._stopping))
                    if "node" in self._parts:
                        working.create_task(self._app.run_node(self._stopping, self._on_joined))
            finally:
                supervising.cancel()

    async def _schema(self) -> None:
        """A worker waits for the schema; who serves the API has just migrated."""
        is_told = False
        while not self._stopping.is_set():
            status = await self._app.schema_status()
            if status.is_current:
                await self._app.prepare()
                return
            status.check()
            if not is_told:
                log.get_logger().info(log.SCHEMA_AWAITED)
                is_told = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), SCHEMA_CHECK)

    def _on_started(self) -> None:
        self._tell_when_ready("api")

    def _on_joined(self) -> None:
        self._tell_when_ready("node")

    def _tell_when_ready(self, part: str) -> None:
        """Ready is when the last part is; a node that joins again later is no news."""
        if part not in self._awaited:
            return
        self._awaited.remove(part)
        if self._awaited or self._stopping.is_set():
            return
        if self._bound is None:
            log.get_logger().info(log.READY)
            return
        url = address(self._bound)
        log.get_logger().info(log.READY, url=url)
        if "node" in self._parts:
            self._greet(url)

    def _greet(self, url: str) -> None:
        typer.echo(f"The API is at {url}/api/v1")
        if self._settings.auth == "off":
            typer.echo("It needs no token: auth is off")
            return
        # Another command finds the generated secret only if it is told where to look.
        is_told = self._settings.origins["data_dir"] == "keyword"
        place = f" --data-dir {shlex.quote(str(self._settings.data_dir))}" if is_told else ""
        # In a checkout `evenbeat` is on nobody's path: ./dev says how it is called there.
        command = os.environ.get("DEV_COMMAND", "evenbeat")
        typer.echo(f"Make a token for it with: {command} token{place}")


def address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
