"""The supervisor: a small process beside each program that starts it, reads it and ends it.

A node starts it as a script; its standard input is a socket to the node. The order of what to run
comes in there, and the program's output goes out. When the node closes the socket or dies, the
supervisor ends the program with all its descendants.

It imports nothing of ours, and little of Python's library: each run starts one.
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
# Bytes of the last output that are sent at the end: an excerpt, and room for a whole secret.
TAIL = 2 * PIECE
# In bytes; a character has four at most. The node cuts a line again, to 10,000 characters, after
# masking: a secret that is cut in half here lies behind those.
LONGEST_LINE = PIECE
# Seconds: a background process of the program may hold its output open for ever.
LINGER = 1.0
# Seconds between rounds of kills: descendants may start others, and some cannot be killed.
FIRST_KILL_PAUSE, LONGEST_KILL_PAUSE = 0.05, 10.0
# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_STARTED = 127
# Signals that the node or Python ignores: a program must start with their defaults.
TO_DEFAULT = (
    *(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP),
    *(signal.SIGINT, signal.SIGTERM, signal.SIGQUIT),
)


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def read_order() -> dict[str, Any]:
    """What to run, as `supervisor_client.build_order` writes it. Exits if the node is gone."""
    size = int.from_bytes(read_exactly(4))
    return marshal.loads(read_exactly(size))  # noqa: S302 - from the node, by a socket pair


def read_exactly(size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(NODE_SOCKET, size - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def send_to_node(**message: Any) -> None:
    """Send a message to the node, if it is still there."""
    body = marshal.dumps(message)
    data = len(body).to_bytes(4) + body
    try:
        while data:
            data = data[os.write(NODE_SOCKET, data) :]
    except (BrokenPipeError, ConnectionResetError):
        # The main loop notices it too, and ends the program.
        return


def start_program(order: dict[str, Any], out: int, err: int) -> int:
    """Start the program as the leader of a new session, and return its process id. Exits if the
    program cannot be started."""
    stdin = os.memfd_create("stdin") if order["stdin"] else os.open(os.devnull, os.O_RDONLY)
    if order["stdin"]:
        # A file in memory: writing to a pipe would block beyond 64 KiB.
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
        error = answer.read()
    if error:
        os.waitpid(pid, 0)
        send_to_node(error=error.decode(errors="replace"))
        sys.exit(0)
    return pid


def exec_program(order: dict[str, Any], streams: tuple[int, int, int], failed: int) -> NoReturn:
    """Become the program. That closes `failed`; an error is written to it instead."""
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
        # The kernel then kills the program with its supervisor. Set after the change of user,
        # which clears it.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        what = f"cannot be started in {order['cwd']}"
        os.chdir(order["cwd"])
        what = f"cannot run {order['argv'][0]}"
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - that is the point
    except Exception as error:
        # Any error is sent to the node as the reason.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        os.write(failed, f"{what}: {reason}".encode(errors="replace"))
    finally:
        # This forked copy of the supervisor must never go on.
        os._exit(NOT_STARTED)


class LineSplitter:
    """Splits the output of one stream into lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._line = b""

    def split_lines(self, data: bytes) -> list[str]:
        """The lines that `data` completes; without data, the unfinished last one."""
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
        # Becomes readable when a child process ends.
        self._child_signals, signals_in = os.pipe()
        for fd in (self._child_signals, signals_in):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, on_child_signal)
        signal.set_wakeup_fd(signals_in)
        self._streams: dict[int, LineSplitter] = {}
        self._tails = {"out": b"", "err": b"", "both": b""}
        writes: list[int] = []
        for name in ("out", "err"):
            read, write = os.pipe()
            self._streams[read] = LineSplitter(name)
            writes.append(write)
        self._pid = start_program(order, *writes)
        self._status: int | None = None
        self._has_children = True
        self._is_stop_wanted = False
        self._is_stopped = False

    def run_to_end(self) -> None:
        """Follow the program until it and its output have ended, or the node wants it to stop."""
        send_to_node(started=self._pid)
        while self._status is None and not self._is_stop_wanted:
            self._wait(None)
        until = time.monotonic() + LINGER
        while self._streams and not self._is_stop_wanted and time.monotonic() < until:
            self._wait(until - time.monotonic())
        if self._is_stop_wanted:
            self._end_all()
        for stream in self._streams.values():
            self._send_lines(stream, b"")
        self._send_exit()

    def _end_all(self) -> None:
        """Ask the program to end, then kill it with all its descendants."""
        # The program may have ended by itself and left background processes.
        self._is_stopped = self._status is None
        # Its process group at once; descendants outside of the group one by one.
        send(signal.SIGTERM, -self._pid)
        for pid in descendants(os.getpid()):
            if group_of(pid) != self._pid:
                send(signal.SIGTERM, pid)
        until = time.monotonic() + self._grace
        while self._has_children and time.monotonic() < until:
            self._wait(until - time.monotonic())
        pause = FIRST_KILL_PAUSE
        while self._has_children:
            for pid in descendants(os.getpid()):
                send(signal.SIGKILL, pid)
            self._wait(pause)
            pause = min(2 * pause, LONGEST_KILL_PAUSE)

    def _wait(self, longest: float | None) -> None:
        """Wait for the first event up to `longest` seconds, and handle it."""
        poll = select.poll()
        node = [] if self._is_stop_wanted else [NODE_SOCKET]
        watched = [self._child_signals, *self._streams, *node]
        for fd in watched:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(None if longest is None else max(longest, 0) * 1000):
            if fd == self._child_signals:
                os.read(self._child_signals, PIECE)
                self._reap_children()
            elif fd == NODE_SOCKET:
                self._is_stop_wanted = is_socket_closed()
            else:
                self._read_output(fd)

    def _read_output(self, fd: int) -> None:
        stream, data = self._streams[fd], os.read(fd, PIECE)
        for name in (stream.name, "both"):
            self._tails[name] = (self._tails[name] + data)[-TAIL:]
        self._send_lines(stream, data)
        if not data:
            os.close(fd)
            del self._streams[fd]

    def _send_lines(self, stream: LineSplitter, data: bytes) -> None:
        # Output beyond what is kept is not split: it may come fast.
        if self._lines_left == 0:
            return
        lines = stream.split_lines(data)[: self._lines_left]
        self._lines_left -= len(lines)
        if lines:
            send_to_node(lines=lines, stream=stream.name)

    def _reap_children(self) -> None:
        """Collect ended child processes; as a subreaper, we inherit the program's orphans."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self._status = status
        except ChildProcessError:
            self._has_children = False

    def _send_exit(self) -> None:
        status = self._status or 0
        send_to_node(
            code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            is_stopped=self._is_stopped,
            output=self._tails["both"],
            errors=self._tails["err"],
        )


def on_child_signal(number: int, frame: object) -> None:
    """Does nothing: Python writes to the wakeup pipe only for signals that have a handler."""


def is_socket_closed() -> bool:
    """Whether the node has closed its end. It sends nothing after the order."""
    try:
        return not os.read(NODE_SOCKET, 1)
    except ConnectionResetError:
        return True


def send(number: int, pid: int) -> None:
    """A signal to a process, or to the group of one whose number is negative."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        # It has ended, or belongs to another user, as children of sudo do.
        return


def descendants(root: int) -> list[int]:
    """All descendants of this process, in any process group or session."""
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
            # The name in brackets may itself contain brackets.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def send_crash(kind: type[BaseException], error: BaseException, *_: object) -> None:
    """Report an error of the supervisor itself to the node."""
    send_to_node(error=f"the supervisor failed: {kind.__name__}: {error}")


def main() -> None:
    sys.excepthook = send_crash
    # systemd may signal every process of a service: the supervisor still ends the program.
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    Supervisor(read_order()).run_to_end()


if __name__ == "__main__":
    main()
