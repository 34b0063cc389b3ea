"""`up`, `server` and `worker`: one process, from its start to its graceful end."""

import asyncio
import contextlib
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Collection, Generator

import typer
import uvloop

from evenbeat import server
from evenbeat.cli.user_app import find_app
from evenbeat.config import Settings
from evenbeat.core.errors import EvenbeatError
from evenbeat.observe import log, traces
from evenbeat.web import watched

SCHEMA_CHECK = 0.5
# For threads and tasks that a handler left behind; everything of ours is closed by then.
LAST_WAIT = 3.0
INTERRUPTED = 130


def run(settings: Settings, parts: Collection[str]) -> None:
    """Run these parts, `api` and `node`, until a signal comes. The second one waits for nothing."""
    log.configure(settings)
    provider = traces.configure()
    bound = server.bind(settings) if "api" in parts else None
    # Who serves the API shows its metrics there.
    is_watched = bound is None and settings.metrics_port is not None
    seen = server.bind(settings, "metrics_port") if is_watched else None
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = 1
            try:
                runner.run(Service(settings, parts, bound, seen).run())
                code = 0
            except asyncio.CancelledError:
                code = INTERRUPTED
                raise
            finally:
                leave_by_force(code, after=LAST_WAIT)
    except asyncio.CancelledError:
        raise typer.Exit(INTERRUPTED) from None
    except BaseExceptionGroup as group:
        ours = group.subgroup(EvenbeatError)
        if ours is None:
            raise
        raise first_leaf(ours) from None
    finally:
        if provider is not None:
            provider.shutdown()


def leave_by_force(code: int, *, after: float) -> None:
    """End the process soon, even if the loop waits for a handler that will not end."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    timer = threading.Timer(after, leave)
    timer.daemon = True
    timer.start()


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
        self._stopping = asyncio.Event()
        self._app = find_app(settings)

    async def run(self) -> None:
        log.get_logger().info(log.STARTING)
        with self._signals():
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
                        site = server.build(self._app)
                        working.create_task(
                            server.serve(site, self._bound, self._stopping, self._on_started)
                        )
                    if self._seen is not None:
                        face = watched.build(self._app)
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
                await self._app.prepare_kinds()
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

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop() -> None:
            if not self._stopping.is_set():
                log.get_logger().info(log.STOPPING)
                self._stopping.set()
            elif task is not None:
                task.cancel()

        chosen = stop_signals()
        for each in chosen:
            loop.add_signal_handler(each, stop)
        try:
            yield
        finally:
            for each in chosen:
                loop.remove_signal_handler(each)


def stop_signals() -> list[signal.Signals]:
    """Ctrl-C, a manager's wish, and the end of the terminal, which `nohup` wants to be ignored."""
    ignores_the_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignores_the_terminal else [signal.SIGHUP])]


def address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def first_leaf(group: BaseExceptionGroup[EvenbeatError]) -> EvenbeatError:
    first = group.exceptions[0]
    return first_leaf(first) if isinstance(first, BaseExceptionGroup) else first
