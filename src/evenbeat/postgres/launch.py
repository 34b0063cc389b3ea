"""Starting the postmaster: from a clean, crashed or confused data directory to ready."""

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evenbeat.core.errors import PostgresFailed
from evenbeat.observe import log
from evenbeat.postgres.account import OsAccount, account_for_data, account_for_new_data
from evenbeat.postgres.binaries import choose_binaries, usable_by
from evenbeat.postgres.cluster import has_cluster, make_cluster
from evenbeat.postgres.home import Home, make_private_directory
from evenbeat.postgres.log import open_log, read_from, reason_in
from evenbeat.postgres.postmaster import PidFile, Postmaster, wait_until

SOCKET_PORT = 5432
LOOPBACK = "127.0.0.1"
# Crash recovery replays up to a gigabyte of WAL.
READY_WITHIN = 60.0
# Backends notice the death of their postmaster when they next look, at the end of a query.
LEFTOVERS_GONE_WITHIN = 30.0
RETRY_EVERY = 0.1


class StillStarting(PostgresFailed):
    """It runs, but is not ready yet: left alone, so that its recovery is not lost."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the server of one home."""

    home: Home
    port: int | None
    bin_dir: Path | None
    settings: Mapping[str, str]
    durable: bool

    def start(self) -> None:
        """Make the data directory if there is none, and start its server. Only under the lock."""
        self.home.sweep()
        new = not has_cluster(self.home.data)
        account = account_for_new_data(self.home.path) if new else account_for_data(self.home.data)
        binaries = usable_by(account, choose_binaries(self.bin_dir, self.home.data), self.home.path)
        if new:
            make_cluster(self.home, account, binaries, durable=self.durable)
        self._clear_the_way(account)
        deadline = time.monotonic() + LEFTOVERS_GONE_WITHIN
        while not self._try_to_start(account, binaries.postgres):
            if time.monotonic() > deadline:
                raise PostgresFailed(
                    f"processes of an earlier PostgreSQL are still at work in {self.home.data} "
                    f"after {LEFTOVERS_GONE_WITHIN:.0f} s: end the postgres processes whose "
                    "working directory that is"
                )
            time.sleep(RETRY_EVERY)
        log.get_logger().info(
            log.POSTGRES_STARTED, version=binaries.version, data=str(self.home.data)
        )

    def wait_until_ready(self) -> bool:
        """False if it ended instead."""
        postmaster = Postmaster(self.home.data)
        settled = wait_until(lambda: _is_settled(postmaster.running()), within=READY_WITHIN)
        if not settled:
            raise StillStarting(self._still_starting())
        return postmaster.running() is not None

    def _try_to_start(self, account: OsAccount, postgres: Path) -> bool:
        """False if processes of an earlier server are in the way."""
        postmaster = Postmaster(self.home.data)
        with open_log(self.home.log) as output:
            position = output.tell()
            process = account.spawn(
                *self._command(postgres, self.home.socket_dir(account.uid)),
                log=output,
                extra=self._ignoring_stale_pid(),
            )
        _reap_in_background(process)

        def ready_or_dead() -> bool:
            noted = postmaster.running()
            return process.poll() is not None or (noted is not None and noted.ready)

        if not wait_until(ready_or_dead, within=READY_WITHIN):
            raise StillStarting(self._still_starting())
        if process.poll() is None:
            return True
        said = read_from(self.home.log, position)
        if "pre-existing shared memory block" in said:
            return False
        raise PostgresFailed(self._why_not_started(said))

    def _command(self, postgres: Path, socket_dir: Path) -> list[str | Path]:
        # The data directory comes first: it is what tells this process from others.
        command: list[str | Path] = [postgres, "-D", self.home.data, "-k", socket_dir]
        settings = {
            **self.settings,
            "listen_addresses": LOOPBACK if self.port else "",
            "port": str(self.port or SOCKET_PORT),
            "unix_socket_permissions": "0700",
        }
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _ignoring_stale_pid(self) -> dict[str, str]:
        # PostgreSQL refuses to start while the pid in a stale postmaster.pid is alive, whoever has
        # it now. It lets only its own ancestors pass, so the stale one is declared to be such.
        stale = PidFile.read(self.home.data)
        return {} if stale is None else {"PG_GRANDPARENT_PID": str(stale.pid)}

    def _clear_the_way(self, account: OsAccount) -> None:
        self._remove_garbled_pid_file()
        socket_dir = self.home.socket_dir(account.uid)
        make_private_directory(socket_dir, account)
        for path in socket_dir.glob(".s.PGSQL.*"):
            if _answers(path):
                raise PostgresFailed(
                    f"a PostgreSQL that this process cannot see, perhaps in another container, "
                    f"answers on {path}: use it by EVENBEAT_DATABASE_URL, or set EVENBEAT_DATA_DIR "
                    "to another directory"
                )
        for path in socket_dir.glob(".s.PGSQL.*"):
            path.unlink()

    def _remove_garbled_pid_file(self) -> None:
        pid_file = self.home.data / "postmaster.pid"
        if not pid_file.exists() or PidFile.read(self.home.data) is not None:
            return
        postmaster = Postmaster(self.home.data)
        if not wait_until(lambda: not postmaster.has_processes(), within=LEFTOVERS_GONE_WITHIN):
            raise PostgresFailed(
                f"{pid_file} says nothing, but a PostgreSQL is at work in {self.home.data}: stop "
                "it, and remove the file"
            )
        pid_file.unlink()

    def _why_not_started(self, said: str) -> str:
        if self.port and "Address already in use" in said:
            return (
                f"port {self.port} on {LOOPBACK} is used by another program: set EVENBEAT_PG_PORT "
                "to a free one, or leave it unset to use the socket alone"
            )
        return f"PostgreSQL did not start: {reason_in(said)} (log: {self.home.log})"

    def _still_starting(self) -> str:
        return (
            f"PostgreSQL in {self.home.data} is still recovering after {READY_WITHIN:.0f} s; it "
            f"goes on, so try again later, and follow it in {self.home.log}"
        )


def _is_settled(noted: PidFile | None) -> bool:
    return noted is None or noted.ready


def _answers(path: Path) -> bool:
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.connect(str(path))
        return True
    return False


def _reap_in_background(process: subprocess.Popen[bytes]) -> None:
    # A dead child stays a zombie until somebody waits for it, and to PostgreSQL a zombie's pid is
    # that of a living server. Our process may be long gone from the share by then.
    threading.Thread(target=process.wait, name="postmaster-reaper", daemon=True).start()
