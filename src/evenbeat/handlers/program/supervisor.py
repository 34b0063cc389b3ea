"""The supervisor: a small process beside each program, which starts it, hears it, and sees to its end.

A node starts it as a script of its own and holds it by a socket, its standard input. What it is to
run comes in there, and what the program says goes out. When the node lets go, or dies of whatever,
the socket ends, and so does the program with all that it has started.

It loads nothing of ours, and little of Python's: it is started once a run.
"""

import ctypes
import marshal
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

NODE_SOCKET = 0
PIECE = 65_536
# As many bytes of what was said last are told at the end: an excerpt, and room for a secret beside.
TAIL = 2 * PIECE
# In bytes, of which a character has four at most. A line is cut here, and again where secrets are
# known, to 10,000 characters: what is cut in half here is behind those.
LONGEST_LINE = PIECE
# What the program left in the background may hold its output open for ever.
LINGER = 1.0
# Some go on making others while they are killed; and some cannot be killed, and are waited for.
KILL_EVERY, KILL_SELDOM = 0.05, 10.0
# Of linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_STARTED = 127
# What a node may ignore, and Python does, a program must not find ignored.
TO_DEFAULT = (
    *(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP),
    *(signal.SIGINT, signal.SIGTERM, signal.SIGQUIT),
)


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def read_order() -> dict[str, Any]:
    """What to run, as `handlers/minding.py` writes it. A node that died meanwhile wants nothing."""
    size = int.from_bytes(read_exactly(4))
    return marshal.loads(read_exactly(size))  # noqa: S302 - from the node, by a pair of sockets


def read_exactly(size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(NODE_SOCKET, size - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def send_to_node(**words: Any) -> None:
    """Say this to the node, if it is still there."""
    body = marshal.dumps(words)
    data = len(body).to_bytes(4) + body
    try:
        while data:
            data = data[os.write(NODE_SOCKET, data) :]
    except (BrokenPipeError, ConnectionResetError):
        # The loop hears of it as well, and ends the program.
        return


def start_program(order: dict[str, Any], out: int, err: int) -> int:
    """The program's process, the first of its own session; or the end of this one, if it cannot
    be started."""
    stdin = os.memfd_create("stdin") if order["stdin"] else os.open(os.devnull, os.O_RDONLY)
    if order["stdin"]:
        # A file has no reader to wait for, and can be longer than a pipe.
        with os.fdopen(os.dup(stdin), "wb") as file:
            file.write(order["stdin"])
        os.lseek(stdin, 0, os.SEEK_SET)
    ready, failed = os.pipe()
    pid = os.fork()
    if pid == 0:
        exec_program(order, (stdin, out, err), failed)
    for fd in (stdin, out, err, failed):
        os.close(fd)
    with os.fdopen(ready, "rb") as answer:
        why = answer.read()
    if why:
        os.waitpid(pid, 0)
        send_to_node(cannot=why.decode(errors="replace"))
        sys.exit(0)
    return pid


def exec_program(order: dict[str, Any], streams: tuple[int, int, int], failed: int) -> NoReturn:
    """Turn into the program. `failed` is closed by that, or hears why it could not be."""
    what = "cannot be started"
    try:
        os.setsid()
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        for each in TO_DEFAULT:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if order["user"] is not None:
            uid, gid, groups = order["user"]
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
        # After the change of user, which would clear it: whoever kills the supervisor kills this too.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        what = f"cannot be started in {order['cwd']}"
        os.chdir(order["cwd"])
        what = f"cannot run {order['argv'][0]}"
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - that is the point
    except Exception as error:
        # Whatever it is, who waits for the program is told the reason.
        why = error.strerror if isinstance(error, OSError) else str(error)
        os.write(failed, f"{what}: {why}".encode(errors="replace"))
    finally:
        # Whatever happens, this copy of the supervisor minds nothing.
        os._exit(NOT_STARTED)


class LineSplitter:
    """What comes out of one stream, as lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._line = b""

    def hear(self, data: bytes) -> list[str]:
        """The lines that this ends; without data, the last one, if it has no end."""
        *ended, rest = (self._line + data).split(b"\n")
        self._line = rest[:LONGEST_LINE] if data else b""
        if not data and rest:
            ended.append(rest)
        return [as_text(line) for line in ended]


def as_text(line: bytes) -> str:
    return line[:LONGEST_LINE].rstrip(b"\r").decode(errors="replace")


class Supervisor:
    """One program, from its start to its end."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._grace: float = order["grace"]
        self._lines_left: int = order["most_lines"]
        # Whoever ends among those below us is told here.
        self._bell, ring = os.pipe()
        for fd in (self._bell, ring):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, on_child_signal)
        signal.set_wakeup_fd(ring)
        self._speech: dict[int, LineSplitter] = {}
        self._tails = {"out": b"", "err": b"", "both": b""}
        writes: list[int] = []
        for name in ("out", "err"):
            read, write = os.pipe()
            self._speech[read] = LineSplitter(name)
            writes.append(write)
        self._pid = start_program(order, *writes)
        self._status: int | None = None
        self._has_children = True
        self._is_let_go = False
        self._is_stopped = False

    def run_to_end(self) -> None:
        """See it through."""
        send_to_node(started=self._pid)
        while self._status is None and not self._is_let_go:
            self._wait(None)
        until = time.monotonic() + LINGER
        while self._speech and not self._is_let_go and time.monotonic() < until:
            self._wait(until - time.monotonic())
        if self._is_let_go:
            self._end_all()
        for speech in self._speech.values():
            self._say(speech, b"")
        self._tell_end()

    def _end_all(self) -> None:
        """Ask the program to end, and then make all of it end: nobody is left over."""
        # It may have ended by itself, and only those in the background are left.
        self._is_stopped = self._status is None
        # Its group at one stroke; whoever has left that is asked one by one.
        send(signal.SIGTERM, -self._pid)
        for pid in descendants(os.getpid()):
            if group_of(pid) != self._pid:
                send(signal.SIGTERM, pid)
        until = time.monotonic() + self._grace
        while self._has_children and time.monotonic() < until:
            self._wait(until - time.monotonic())
        pause = KILL_EVERY
        while self._has_children:
            for pid in descendants(os.getpid()):
                send(signal.SIGKILL, pid)
            self._wait(pause)
            pause = min(2 * pause, KILL_SELDOM)

    def _wait(self, longest: float | None) -> None:
        """Wait for whatever comes first, and see to it."""
        poll = select.poll()
        watched = [self._bell, *self._speech, *([] if self._is_let_go else [NODE_SOCKET])]
        for fd in watched:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(None if longest is None else max(longest, 0) * 1000):
            if fd == self._bell:
                os.read(self._bell, PIECE)
                self._take_leave()
            elif fd == NODE_SOCKET:
                self._is_let_go = has_node_let_go()
            else:
                self._hear(fd)

    def _hear(self, fd: int) -> None:
        speech, data = self._speech[fd], os.read(fd, PIECE)
        for name in (speech.name, "both"):
            self._tails[name] = (self._tails[name] + data)[-TAIL:]
        self._say(speech, data)
        if not data:
            os.close(fd)
            del self._speech[fd]

    def _say(self, speech: LineSplitter, data: bytes) -> None:
        # Who says more than is kept may say it fast: it is not even looked at.
        if self._lines_left == 0:
            return
        lines = speech.hear(data)[: self._lines_left]
        self._lines_left -= len(lines)
        if lines:
            send_to_node(said=lines, by=speech.name)

    def _take_leave(self) -> None:
        """Of those that have ended; orphans of the program come to us as well."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self._status = status
        except ChildProcessError:
            self._has_children = False

    def _tell_end(self) -> None:
        status = self._status or 0
        send_to_node(
            code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            is_stopped=self._is_stopped,
            output=self._tails["both"],
            errors=self._tails["err"],
        )


def on_child_signal(number: int, frame: object) -> None:
    """A handler, since a signal that has none rings nothing."""


def has_node_let_go() -> bool:
    """Whether the node has let go: it says nothing after the order."""
    try:
        return not os.read(NODE_SOCKET, 1)
    except ConnectionResetError:
        return True


def send(number: int, pid: int) -> None:
    """A signal to a process, or to the group of one whose number is negative."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        # It has ended, or has become somebody else's, as sudo's do.
        return


def descendants(root: int) -> list[int]:
    """Whoever comes from this process, in whatever group or session."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - paths take as long to load as all the rest
        if name.isdecimal():
            children.setdefault(parent_of(name), []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        mine = children.get(waiting.pop(), [])
        found += mine
        waiting += mine
    return found


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def parent_of(name: str) -> int:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            # The name in brackets may hold anything, brackets too.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def send_crash(kind: type[BaseException], error: BaseException, *_: object) -> None:
    """Our own mistake: the node is the only one who can be told."""
    send_to_node(cannot=f"cannot be minded: {kind.__name__}: {error}")


def main() -> None:
    sys.excepthook = send_crash
    # A manager that stops a service may signal every process of it: this one ends when it is done.
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    Supervisor(read_order()).run_to_end()


if __name__ == "__main__":
    main()
