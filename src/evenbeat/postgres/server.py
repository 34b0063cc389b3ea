"""The embedded server as its users see it: acquire a share, connect, release the share."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from evenbeat.core.errors import PostgresFailed
from evenbeat.observe import log
from evenbeat.postgres.cluster import SUPERUSER
from evenbeat.postgres.database import ensure_database
from evenbeat.postgres.home import Home, translate_os_errors
from evenbeat.postgres.launch import LOOPBACK, Launch, StillStarting
from evenbeat.postgres.locks import Share, locked
from evenbeat.postgres.postmaster import PidFile, Postmaster

DATABASE = "evenbeat"
LONGEST_PAUSE = 30.0

# For a small machine. Measured: larger buffers and fewer checkpoints made no difference to
# single-row transactions; jit made queries much slower.
DEFAULTS = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "jit": "off",
    "autovacuum_naptime": "5s",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedServer:
    """One PostgreSQL per home, shared by all processes that hold a share of it.

    The first process starts it, and the last one stops it. The kernel counts the shares: a killed
    process loses its share. A server that was not stopped is used by the next process. One object
    holds at most one share; acquiring again only makes sure that the server runs.
    """

    def __init__(
        self,
        home: Path,
        *,
        port: int | None = None,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        durable: bool = True,
    ) -> None:
        self._home = Home(Path(home).resolve())
        self._port = port
        relaxed = {} if durable else NOT_DURABLE
        self._launch = Launch(
            home=self._home,
            port=port,
            bin_dir=bin_dir,
            settings={**DEFAULTS, **relaxed, **(settings or {})},
            durable=durable,
        )
        self._postmaster = Postmaster(self._home.data)
        self._share: Share | None = None
        self._address: PidFile | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the postmaster, if it runs and is ours."""
        running = self._postmaster.running()
        return running.pid if running else None

    def acquire(self) -> None:
        """Take a share: start the server, or attach to the one that runs."""
        with translate_os_errors(self._home.path):
            self._home.make()
            with locked(self._home.lock):
                if self._share is not None:
                    self._ensure_started(self._share)
                    return
                share = Share(self._home.users)
                try:
                    self._ensure_started(share)
                except BaseException as error:
                    self._release_share(share, leave_running=isinstance(error, StillStarting))
                    raise
                self._share = share

    def release(self) -> None:
        """Release the share; the last process stops the server."""
        if self._share is None:
            return
        with translate_os_errors(self._home.path), locked(self._home.lock):
            share, self._share = self._share, None
            self._release_share(share)

    def ensure_running(self) -> bool:
        """True: the server had died, and was started again."""
        if self._share is None:
            raise PostgresFailed(
                f"this process has no share of the server in {self._home.path}: acquire it first"
            )
        with translate_os_errors(self._home.path), locked(self._home.lock):
            return self._ensure_running_locked()

    async def supervise(
        self, *, check_every: float = 0.5, on_restart: Callable[[], None] | None = None
    ) -> None:
        """Start the server again whenever it dies while a share is held, until cancelled."""
        pause = check_every
        while True:
            await asyncio.sleep(pause)
            if self._share is None or self.pid is not None:
                pause = check_every
                continue
            log.get_logger().warning(log.POSTGRES_DIED, home=str(self._home.path))
            try:
                restarted = await asyncio.to_thread(self.ensure_running)
            except PostgresFailed as error:
                pause = min(pause * 2, LONGEST_PAUSE)
                log.get_logger().error(
                    log.POSTGRES_NOT_RESTARTED, reason=str(error), retry_after=pause
                )
                continue
            pause = check_every
            if restarted and on_restart is not None:
                on_restart()

    def url(self, database: str = DATABASE) -> str:
        """A URL for libpq and asyncpg, over the socket."""
        if self._address is None:
            raise PostgresFailed(
                f"the server in {self._home.path} has no address yet: acquire it first"
            )
        password = quote(self._home.read_password(), safe="")
        host = quote(self._address.socket_dir, safe="")
        return (
            f"postgresql://{SUPERUSER}:{password}@/{quote(database, safe='')}"
            f"?host={host}&port={self._address.port}"
        )

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _ensure_started(self, share: Share) -> bool:
        """Make sure that the server runs; returns whether it was started."""
        started = False
        running = self._running_and_ready()
        if running is not None and not self._serves_our_port(running):
            if not share.is_the_last():
                raise PostgresFailed(self._explain_other_port(running))
            self._stop()
            running = None
        if running is None:
            self._launch.start()
            started = True
            running = self._read_started()
        self._address = running
        ensure_database(DATABASE, self.url(), self.url("postgres"))
        return started

    def _ensure_running_locked(self) -> bool:
        # The share may have been released while this thread waited for the lock.
        return self._share is not None and self._ensure_started(self._share)

    def _read_started(self) -> PidFile:
        running = self._postmaster.running()
        if running is None:
            raise PostgresFailed(
                f"PostgreSQL started and ended again at once; the reason is in {self._home.log}"
            )
        return running

    def _running_and_ready(self) -> PidFile | None:
        if self._postmaster.running() is None or not self._launch.wait_until_ready():
            return None
        return self._postmaster.running()

    def _serves_our_port(self, running: PidFile) -> bool:
        return self._port is None or (running.port == self._port and running.listens_on != "")

    def _explain_other_port(self, running: PidFile) -> str:
        what = f"port {running.port}" if running.listens_on else "its socket alone"
        return (
            f"the server in {self._home.path} is in use by another process and listens on {what}, "
            f"not on {LOOPBACK}:{self._port}: stop the processes that use it, or give all of them "
            "the same EVENBEAT_PG_PORT"
        )

    def _release_share(self, share: Share, *, leave_running: bool = False) -> None:
        try:
            if not leave_running and share.is_the_last():
                self._stop()
        finally:
            share.release()

    def _stop(self) -> None:
        if self._postmaster.running() is None:
            return
        self._postmaster.stop()
        self._home.remove_short_socket_dir()
        log.get_logger().info(log.POSTGRES_STOPPED, data=str(self._home.data))
