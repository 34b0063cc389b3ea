"""The node's end of a program: what its supervisor is told, and what comes back."""

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
# Cron's, for whose jobs this is: what worked there must find the same programs here.
SEARCHED = "/usr/bin:/bin"
LANGUAGE = "C.UTF-8"
# Of the time that a run has to stop, the program's part; the rest is for killing it and telling.
SHARE = 0.8
# After its last word, a supervisor needs some milliseconds.
LOOK_FIRST, LOOK_SELDOM = 0.002, 1.0
# Python itself may need it to start; nothing else of the node's environment goes further.
KEPT = ("LD_LIBRARY_PATH",)


@dataclass(frozen=True, slots=True)
class ProgramUser:
    """Whom a program runs as; `ids` only where that is somebody else than the node."""

    name: str
    home: str
    ids: tuple[int, int, list[int]] | None = None


@dataclass(frozen=True, slots=True)
class StartedSupervisor:
    """A supervisor, and what it is to be told."""

    supervisor: "subprocess.Popen[bytes]"
    order: bytes

    async def gone(self) -> None:
        """Take leave of a supervisor that has nothing left to say: else it stays in the table of
        processes, as a zombie. Told to stop meanwhile, it is waited for all the same, once."""
        try:
            await self._ended()
        except asyncio.CancelledError:
            await self._ended()

    async def _ended(self) -> None:
        # It ends at once, but for a program that cannot be killed: a thread that waits for it
        # might be one too many by then.
        pause = LOOK_FIRST
        while self.supervisor.poll() is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LOOK_SELDOM)


def start_supervisor(
    theirs: socket.socket, payload: dict[str, Any], context: RunContext, grace: timedelta
) -> StartedSupervisor:
    """Start a supervisor, and give it its end of the leash; blocks. Raises InvalidInput for a user that
    is not there, and NotPermitted for one that this node cannot become."""
    with theirs:
        order = framed(build_order(payload, context, grace))
        supervisor = subprocess.Popen(  # noqa: S603 - our own script; what it runs is in the order
            [sys.executable, "-I", "-S", str(SUPERVISOR_SCRIPT)],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in KEPT if name in os.environ},
            # Ctrl-C on the node's terminal is for the node.
            start_new_session=True,
        )
    return StartedSupervisor(supervisor, order)


def framed(value: Any) -> bytes:
    body = marshal.dumps(value)
    return len(body).to_bytes(4) + body


def build_order(payload: dict[str, Any], context: RunContext, grace: timedelta) -> dict[str, Any]:
    account = find_program_user(payload.get("user"))
    shell, command = payload.get("shell") or SHELL, payload["command"]
    env = {
        "PATH": SEARCHED,
        "HOME": account.home,
        "LANG": os.environ.get("LANG") or LANGUAGE,
        "SHELL": shell,
        "LOGNAME": account.name,
        "USER": account.name,
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
        "user": account.ids,
        "grace": SHARE * grace.total_seconds(),
        # One more than is kept: then it is told that there was more.
        "most_lines": MOST_LINES + 1,
    }


def home_of(home: str) -> str:
    """Where a program begins, as cron has it: services often have a home that is not there."""
    return home if Path(home).is_dir() else "/"


def find_program_user(user: str | None) -> ProgramUser:
    mine = os.geteuid()
    try:
        found = pwd.getpwuid(mine) if user is None else pwd.getpwnam(user)
    except KeyError:
        if user is None:
            # Containers run as numbers that have no name.
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
    """Our end: hears the supervisor, one word at a time, and lets go."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # Of the word that is on its way: whoever waits for it may be told to stop meanwhile.
        self._size: int | None = None
        # The program's, once it has begun.
        self.pid: int | None = None

    @classmethod
    async def pair(cls) -> tuple[Self, socket.socket]:
        """A leash, and the supervisor's end of it."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            return cls(*await asyncio.open_connection(sock=ours)), theirs
        except BaseException:
            ours.close()
            theirs.close()
            raise

    def order(self, order: bytes) -> None:
        self._writer.write(order)

    async def hear(self) -> dict[str, Any] | None:
        """The next word; None when the supervisor is gone."""
        try:
            if self._size is None:
                self._size = int.from_bytes(await self._reader.readexactly(4))
            body = await self._reader.readexactly(self._size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self._size = None
        return marshal.loads(body)  # noqa: S302 - from our supervisor, by a pair of sockets

    def ask_to_stop(self) -> None:
        """The program is to end; what becomes of it is still heard."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()
