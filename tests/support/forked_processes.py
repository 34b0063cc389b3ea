"""Processes of `evenbeat` that need not load it: they are forked from one that has.

Each child gets its own arguments, environment, directory and streams. Loading takes most of a
second, and tests start hundreds of processes.
"""

import array
import atexit
import contextlib
import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MOST = 1 << 20
STREAMS = 4


class Child:
    """A forked process."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self._status = status
        self._code: int | None = None

    def poll(self) -> int | None:
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        """Its exit code, as `subprocess` has it; None after the timeout."""
        if self._code is None and select.select([self._status], [], [], timeout)[0]:
            self._code = int(os.read(self._status, MOST))
            os.close(self._status)
        return self._code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class ProcessForker:
    """The process that has loaded `evenbeat` and forks the others."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.end)

    def spawn(
        self,
        arguments: Sequence[str],
        *,
        environ: Mapping[str, str],
        cwd: Path,
        streams: Sequence[int],
    ) -> Child:
        """Start `evenbeat …` with these three streams."""
        status, theirs = os.pipe()
        asked = json.dumps([arguments, dict(environ), str(cwd)]).encode()
        given = array.array("i", [*streams, theirs])
        self._socket.sendmsg([asked], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
        os.close(theirs)
        return Child(int(self._socket.recv(MOST)), status)

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def process_forker() -> ProcessForker:
    """One for this process."""
    return ProcessForker()


# --- in the process that forks -------------------------------------------------------------------


def serve(ours: socket.socket) -> None:
    load()
    ends, signals = os.pipe()
    os.set_blocking(signals, False)
    signal.set_wakeup_fd(signals)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([ours, ends], [], [])
        if ends in ready:
            os.read(ends, MOST)
            reap(living)
        if ours in ready:
            asked, ancillary, *_ = ours.recvmsg(MOST, socket.CMSG_SPACE(STREAMS * 4))
            if not asked:
                return
            streams = array.array("i", ancillary[0][2])
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (ours.detach(), ends, signals, streams[3], *living.values()):
                    os.close(each)
                os._exit(run(*json.loads(asked), streams[:3]))
            for each in streams[:3]:
                os.close(each)
            living[pid] = streams[3]
            ours.send(str(pid).encode())


def load() -> None:
    """Import what all commands need."""
    from evenbeat.cli import commands
    from evenbeat.core.time.schedules.base.zones import known_zones

    for name, verb in commands.VERBS.items():
        verb.load(name)
    # Reading the zones is half of the remaining time of a start.
    known_zones()


def reap(living: dict[int, int]) -> None:
    """Report the exit codes of all children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG):
            pid, status = ended
            if not pid:
                return
            report = living.pop(pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(report, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(report)


def run(arguments: list[str], environ: dict[str, str], cwd: str, streams: Sequence[int]) -> int:
    from evenbeat.cli import main
    from evenbeat.observe import failpoint

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environ)
    for path in reversed(environ.get("PYTHONPATH", "").split(os.pathsep)):
        if path:
            sys.path.insert(0, path)
    # The module reads its variable when it is loaded.
    importlib.reload(failpoint)
    os.chdir(cwd)
    sys.argv = ["evenbeat", *arguments]
    code: Any = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
