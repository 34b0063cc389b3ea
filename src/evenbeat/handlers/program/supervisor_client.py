"""The node's side of a program: starts its supervisor, sends the order, reads the messages."""

import asyncio
import marshal
import os
import pwd
import socket
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from evenbeat.core.errors import InvalidInput, NotPermitted
from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.run_log import MOST_LINES

SUPERVISOR_SCRIPT = Path(__file__).with_name("supervisor.py")
SHELL = "/bin/sh"
# Cron's own PATH: a command that worked in a crontab must find the same programs here.
SEARCHED = "/usr/bin:/bin"
LANGUAGE = "C.UTF-8"
# The program's share of the time that a run has to stop; the rest is for killing it.
SHARE = 0.8
# Seconds between checks whether a supervisor has exited: usually it takes some milliseconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 1.0
# Python itself may need it to start; nothing else of the node's environment is passed on.
KEPT = ("LD_LIBRARY_PATH",)


@dataclass(frozen=True, slots=True)
class ProgramUser:
    """The user that a program runs as; `ids` only if it is not the node's own user."""

    name: str
    home: str
    ids: tuple[int, int, list[int]] | None = None


@dataclass(frozen=True, slots=True)
class StartedSupervisor:
    """A supervisor process, and the order that it is to be sent."""

    process: "subprocess.Popen[bytes]"
    order: bytes

    async def wait_for_exit(self) -> None:
        """Wait until the supervisor has exited, or it would stay as a zombie process. A first
        cancellation does not end the wait, a second one does."""
        try:
            await self._poll_until_exit()
        except asyncio.CancelledError:
            await self._poll_until_exit()

    async def _poll_until_exit(self) -> None:
        # Polled: a program that cannot be killed would block a thread for as long as it lives.
        pause = FIRST_PAUSE
        while self.process.poll() is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def start_supervisor(
    theirs: socket.socket, payload: dict[str, Any], context: RunContext, grace: timedelta
) -> StartedSupervisor:
    """Start a supervisor with `theirs` as its standard input; blocks. Raises InvalidInput for an
    unknown user, and NotPermitted for a user that this node cannot become."""
    with theirs:
        order = framed(build_order(payload, context, grace))
        process = subprocess.Popen(  # noqa: S603 - our own script; what it runs is in the order
            [sys.executable, "-I", "-S", str(SUPERVISOR_SCRIPT)],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in KEPT if name in os.environ},
            # Ctrl-C on the node's terminal must reach the node only.
            start_new_session=True,
        )
    return StartedSupervisor(process, order)


def framed(value: Any) -> bytes:
    body = marshal.dumps(value)
    return len(body).to_bytes(4) + body


def build_order(payload: dict[str, Any], context: RunContext, grace: timedelta) -> dict[str, Any]:
    user = find_program_user(payload.get("user"))
    shell, command = payload.get("shell") or SHELL, payload["command"]
    env = {
        "PATH": SEARCHED,
        "HOME": user.home,
        "LANG": os.environ.get("LANG") or LANGUAGE,
        "SHELL": shell,
        "LOGNAME": user.name,
        "USER": user.name,
        "EVENBEAT_JOB_ID": str(context.job_uid),
        "EVENBEAT_RUN_ID": str(run_uid(context.run_id)),
        "EVENBEAT_BEAT": context.beat_at.isoformat() if context.beat_at else "",
        "EVENBEAT_ATTEMPT": str(context.attempt),
        **payload.get("env", {}),
    }
    return {
        "argv": [shell, "-c", command] if isinstance(command, str) else command,
        "env": env,
        "cwd": payload.get("cwd") or home_of(env["HOME"]),
        "stdin": payload.get("stdin", "").encode(),
        "user": user.ids,
        "grace": SHARE * grace.total_seconds(),
        # One more than is kept, so that the log can say that lines are missing.
        "most_lines": MOST_LINES + 1,
    }


def home_of(home: str) -> str:
    """The directory a program starts in, as cron has it: users of services often have no home."""
    return home if Path(home).is_dir() else "/"


def find_program_user(user: str | None) -> ProgramUser:
    mine = os.geteuid()
    try:
        found = pwd.getpwuid(mine) if user is None else pwd.getpwnam(user)
    except KeyError:
        if user is None:
            # In a container, the user id often has no name.
            return ProgramUser(str(mine), "/")
        raise InvalidInput("payload.user", f"there is no user {user} on this node") from None
    if found.pw_uid == mine:
        return ProgramUser(found.pw_name, found.pw_dir)
    if mine != 0:
        raise NotPermitted(
            f"only a node of root can run a program as {user}, and this one runs as user {mine}: "
            f"run the node as {user}, or leave out payload.user"
        )
    groups = os.getgrouplist(found.pw_name, found.pw_gid)
    return ProgramUser(found.pw_name, found.pw_dir, (found.pw_uid, found.pw_gid, groups))


class SupervisorClient:
    """The node's end of the socket: sends the order, and receives messages one at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # The size of a message whose body has not come yet: `receive` may be cancelled meanwhile.
        self._size: int | None = None
        # The program's process id, once it has started.
        self.pid: int | None = None

    @classmethod
    async def pair(cls) -> tuple[Self, socket.socket]:
        """A client, and the supervisor's end of its socket."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            return cls(*await asyncio.open_connection(sock=ours)), theirs
        except BaseException:
            ours.close()
            theirs.close()
            raise

    def send_order(self, order: bytes) -> None:
        self._writer.write(order)

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the supervisor has gone."""
        try:
            if self._size is None:
                self._size = int.from_bytes(await self._reader.readexactly(4))
            body = await self._reader.readexactly(self._size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self._size = None
        return marshal.loads(body)  # noqa: S302 - from our supervisor, by a socket pair

    def ask_to_stop(self) -> None:
        """Have the program ended; messages still come until it has."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()
