"""The postmaster of one data directory: whether it runs, and how to stop it.

A pid alone proves nothing: after a crash another process may have it. A process is ours only if it
is a postgres that works in our data directory; only such a process gets a signal.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres import commands
from evenbeat.postgres.commands import CommandError

STOP_TIMEOUT = 60.0
POLL_INTERVAL = 0.005


@dataclass(frozen=True, slots=True)
class PidFile:
    """The content of postmaster.pid; a server that has just started has not written all of it."""

    pid: int
    port: int
    socket_dir: str
    listens_on: str
    status: str

    @classmethod
    def read(cls, data: Path) -> "PidFile | None":
        """None: there is no such file, or it is empty or damaged."""
        try:
            lines = (data / "postmaster.pid").read_text().splitlines()
            lines += [""] * (8 - len(lines))
            # A negative pid is that of a server in single-user mode.
            pid = abs(int(lines[0]))
            port = int(lines[3] or 0)
        except (OSError, ValueError):
            return None
        return cls(pid, port, lines[4].strip(), lines[5].strip(), lines[7].strip())

    @property
    def ready(self) -> bool:
        return self.status == "ready"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The server process of one data directory."""

    data: Path

    def running(self) -> PidFile | None:
        """Its pid file, if it runs and is ours."""
        found = PidFile.read(self.data)
        return found if found is not None and self.is_ours(found.pid) else None

    def is_ours(self, pid: int) -> bool:
        if sys.platform != "linux":
            return self._is_ours_by_command(_command_by_ps(pid))
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            # Compared by device and inode: a directory may have several paths.
            return name == "postgres" and os.path.samestat(
                Path(f"/proc/{pid}/cwd").stat(), self.data.stat()
            )
        except PermissionError:
            # Root in a container lacks CAP_SYS_PTRACE and cannot see the working directory of
            # another user's process. Every user can read the command line.
            return self._is_ours_by_command(_command_by_proc(pid))
        except OSError:
            return False

    def has_processes(self) -> bool:
        """Whether any process of a server works here, also a backend of a dead postmaster."""
        return any(map(self.is_ours, _all_pids()))

    def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, everything committed is on disk."""
        running = self.running()
        if running is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGINT)
        if not wait_until(lambda: not self.is_ours(running.pid), within=STOP_TIMEOUT):
            raise PostgresFailed(
                f"PostgreSQL (pid {running.pid}) in {self.data} did not stop within "
                f"{STOP_TIMEOUT:.0f} s; its log says what it waits for"
            )

    def _is_ours_by_command(self, command: list[str]) -> bool:
        if len(command) < 3 or Path(command[0]).name != "postgres" or command[1] != "-D":
            return False
        with contextlib.suppress(OSError):
            return Path(command[2]).samefile(self.data)
        return False


def wait_until(condition: Callable[[], bool], *, within: float) -> bool:
    """Poll the condition; False if it is not true within so many seconds."""
    until = time.monotonic() + within
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(POLL_INTERVAL)
    return True


def _all_pids() -> Iterator[int]:
    if sys.platform == "linux":
        names = [path.name for path in Path("/proc").iterdir()]
    else:
        names = commands.run(["ps", "-axo", "pid="]).split()
    return (int(name) for name in names if name.isdigit())


def _command_by_proc(pid: int) -> list[str]:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return os.fsdecode(line).split("\0")


def _command_by_ps(pid: int) -> list[str]:
    try:
        line = commands.run(["ps", "-o", "command=", "-p", str(pid)]).strip()
    except CommandError:
        return []
    # ps joins arguments with blanks: ours come as `postgres -D DATA -k …`.
    program, _, rest = line.partition(" -D ")
    return [program, "-D", rest.partition(" -k ")[0]]
