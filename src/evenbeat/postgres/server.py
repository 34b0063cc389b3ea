"""The embedded server as its users see it: a share to take, an address, a share to give back."""

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
from evenbeat.postgres.home import Home, plain_errors
from evenbeat.postgres.launch import LOOPBACK, Launch, StillStarting
from evenbeat.postgres.locks import Share, locked
from evenbeat.postgres.postmaster import PidFile, Postmaster

DATABASE = "evenbeat"
LONGEST_PAUSE = 30.0

# For a small machine; measured: larger buffers and a lazier checkpoint made no difference to
# single-row transactions, while jit cost whole queries.
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

    The first user starts it and the last one stops it. The kernel counts: a user that is killed
    loses its share, and a server nobody stopped is found and used by whoever comes next. One
    object holds at most one share; acquiring again only makes sure that the server runs.
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
        """Of our postmaster, verified to be it."""
        noted = self._postmaster.running()
        return noted.pid if noted else None

    def acquire(self) -> None:
        """Take a share: start the server, or attach to the one that runs."""
        with plain_errors(self._home.path):
            self._home.make()
            with locked(self._home.lock):
                if self._share is not None:
                    self._bring_up(self._share)
                    return
                share = Share(self._home.users)
                try:
                    self._bring_up(share)
                except BaseException as error:
                    self._give_back(share, leave_running=isinstance(error, StillStarting))
                    raise
                self._share = share

    def release(self) -> None:
        """Give the share back; the last user stops the server."""
        if self._share is None:
            return
        with plain_errors(self._home.path), locked(self._home.lock):
            share, self._share = self._share, None
            self._give_back(share)

    def ensure_running(self) -> bool:
        """True if the server had died while we hold a share, and was started again."""
        if self._share is None:
            raise PostgresFailed(
                f"this process has no share of the server in {self._home.path}: acquire it first"
            )
        with plain_errors(self._home.path), locked(self._home.lock):
            return self._bring_up_again()

    async def supervise(
        self, *, check_every: float = 0.5, on_restart: Callable[[], None] | None = None
    ) -> None:
        """Start the server again whenever it dies while we hold a share, until cancelled."""
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
        """For libpq and asyncpg, over the socket."""
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

    def _bring_up(self, share: Share) -> bool:
        """Whether it had to be started."""
        started = False
        running = self._running_and_ready()
        if running is not None and not self._serves_our_port(running):
            if not share.is_the_last():
                raise PostgresFailed(self._without_our_port(running))
            self._stop()
            running = None
        if running is None:
            self._launch.start()
            started = True
            running = self._started()
        self._address = running
        ensure_database(DATABASE, self.url(), self.url("postgres"))
        return started

    def _bring_up_again(self) -> bool:
        # Released while we waited for the lock: nothing to keep running any more.
        return self._share is not None and self._bring_up(self._share)

    def _started(self) -> PidFile:
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

    def _without_our_port(self, running: PidFile) -> str:
        what = f"port {running.port}" if running.listens_on else "its socket alone"
        return (
            f"the server in {self._home.path} is in use by another process and listens on {what}, "
            f"not on {LOOPBACK}:{self._port}: stop the processes that use it, or give all of them "
            "the same EVENBEAT_PG_PORT"
        )

    def _give_back(self, share: Share, *, leave_running: bool = False) -> None:
        try:
            if not leave_running and share.is_the_last():
                self._stop()
        finally:
            share.give_back()

    def _stop(self) -> None:
        if self._postmaster.running() is None:
            return
        self._postmaster.stop()
        self._home.remove_short_socket_dir()
        log.get_logger().info(log.POSTGRES_STOPPED, data=str(self._home.data))
