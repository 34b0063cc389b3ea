"""Starts the postmaster on a data directory, also after a crash, and waits until it is ready."""

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
READY_TIMEOUT = 60.0
# Backends notice the death of their postmaster at the end of their query.
OLD_BACKENDS_TIMEOUT = 30.0
RETRY_INTERVAL = 0.1


class StillStarting(PostgresFailed):
    """The server runs but is not ready. It is not stopped: that would lose its recovery so far."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the server of one home."""

    home: Home
    port: int | None
    bin_dir: Path | None
    settings: Mapping[str, str]
    durable: bool

    def start(self) -> None:
        """Make the data directory if there is none, and start its server; under the lock."""
        self.home.sweep()
        is_new = not has_cluster(self.home.data)
        account = (
            account_for_new_data(self.home.path) if is_new else account_for_data(self.home.data)
        )
        binaries = usable_by(account, choose_binaries(self.bin_dir, self.home.data), self.home.path)
        if is_new:
            make_cluster(self.home, account, binaries, durable=self.durable)
        self._remove_stale_files(account)
        deadline = time.monotonic() + OLD_BACKENDS_TIMEOUT
        while not self._try_to_start(account, binaries.postgres):
            if time.monotonic() > deadline:
                raise PostgresFailed(
                    f"processes of an earlier PostgreSQL are still at work in {self.home.data} "
                    f"after {OLD_BACKENDS_TIMEOUT:.0f} s: end the postgres processes whose "
                    "working directory that is"
                )
            time.sleep(RETRY_INTERVAL)
        log.get_logger().info(
            log.POSTGRES_STARTED, version=binaries.version, data=str(self.home.data)
        )

    def wait_until_ready(self) -> bool:
        """False: the server ended instead."""
        postmaster = Postmaster(self.home.data)
        settled = wait_until(lambda: _is_settled(postmaster.running()), within=READY_TIMEOUT)
        if not settled:
            raise StillStarting(self._explain_still_starting())
        return postmaster.running() is not None

    def _try_to_start(self, account: OsAccount, postgres: Path) -> bool:
        """False: processes of an earlier server still use the data directory."""
        postmaster = Postmaster(self.home.data)
        with open_log(self.home.log) as log_file:
            position = log_file.tell()
            process = account.spawn(
                *self._command(postgres, self.home.socket_dir(account.uid)),
                log=log_file,
                extra=self._ignore_stale_pid(),
            )
        _reap_in_background(process)

        def ready_or_dead() -> bool:
            running = postmaster.running()
            return process.poll() is not None or (running is not None and running.ready)

        if not wait_until(ready_or_dead, within=READY_TIMEOUT):
            raise StillStarting(self._explain_still_starting())
        if process.poll() is None:
            return True
        output = read_from(self.home.log, position)
        if "pre-existing shared memory block" in output:
            return False
        raise PostgresFailed(self._explain_failure(output))

    def _command(self, postgres: Path, socket_dir: Path) -> list[str | Path]:
        # The data directory comes first: Postmaster.is_ours looks for it there.
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

    def _ignore_stale_pid(self) -> dict[str, str]:
        # PostgreSQL refuses to start while the pid in a stale postmaster.pid is alive, whichever
        # process has it now. It ignores only its own ancestors: the stale pid is declared as one.
        stale = PidFile.read(self.home.data)
        return {} if stale is None else {"PG_GRANDPARENT_PID": str(stale.pid)}

    def _remove_stale_files(self, account: OsAccount) -> None:
        self._remove_damaged_pid_file()
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

    def _remove_damaged_pid_file(self) -> None:
        pid_file = self.home.data / "postmaster.pid"
        if not pid_file.exists() or PidFile.read(self.home.data) is not None:
            return
        postmaster = Postmaster(self.home.data)
        if not wait_until(lambda: not postmaster.has_processes(), within=OLD_BACKENDS_TIMEOUT):
            raise PostgresFailed(
                f"{pid_file} cannot be read, but a PostgreSQL is at work in {self.home.data}: stop "
                "it, and remove the file"
            )
        pid_file.unlink()

    def _explain_failure(self, output: str) -> str:
        if self.port and "Address already in use" in output:
            return (
                f"port {self.port} on {LOOPBACK} is used by another program: set EVENBEAT_PG_PORT "
                "to a free one, or leave it unset to use the socket alone"
            )
        return f"PostgreSQL did not start: {reason_in(output)} (log: {self.home.log})"

    def _explain_still_starting(self) -> str:
        return (
            f"PostgreSQL in {self.home.data} is still recovering after {READY_TIMEOUT:.0f} s; it "
            f"goes on, so try again later, and follow it in {self.home.log}"
        )


def _is_settled(running: PidFile | None) -> bool:
    return running is None or running.ready


def _answers(path: Path) -> bool:
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.connect(str(path))
        return True
    return False


def _reap_in_background(process: subprocess.Popen[bytes]) -> None:
    # A dead child stays a zombie until its parent waits for it, and PostgreSQL takes the pid of a
    # zombie for a live server. This process may have released its share long before.
    threading.Thread(target=process.wait, name="postmaster-reaper", daemon=True).start()
