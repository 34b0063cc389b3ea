"""The command as people call it: its output, its exit code."""

import asyncio
import json
import logging
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from evenbeat.cli.commands import app
from evenbeat.core.errors import EvenbeatError
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.ids import run_uid
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database.pool import Database
from tests.control.controlled_jobs import ControlledJobs, due, open_controlled_jobs
from tests.support import databases
from tests.support.forked_processes import process_forker
from tests.support.serving import server_environ, serving

Command = Callable[..., subprocess.CompletedProcess[str]]
# Seconds, for the busiest of machines.
LONGEST = 60


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.out)

    @property
    def table(self) -> list[list[str]]:
        """The words of each row, without the head."""
        assert self.code == 0, self
        return [line.split() for line in self.out.splitlines()[1:]]


Call = Callable[..., Awaitable[Said]]


@pytest.fixture
def evenbeat(tmp_path: Path) -> Command:
    """Calls `evenbeat …` in an empty directory, with no settings but those given."""

    def call(*arguments: str, typed: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        settings = {"PATH": os.environ.get("PATH", os.defpath), **environ}
        with (
            tempfile.TemporaryFile("w+") as typing,
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
        ):
            typing.write(typed)
            typing.seek(0)
            streams = [each.fileno() for each in (typing, out, err)]
            child = process_forker().spawn(
                arguments, environ=settings, cwd=tmp_path, streams=streams
            )
            code = child.wait(LONGEST)
            assert code is not None, f"evenbeat {arguments} did not end"
            for each in (out, err):
                each.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())

    return call


@pytest.fixture(scope="module")
def address(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server's."""
    asyncio.run(databases.empty(database_url))
    place = tmp_path_factory.mktemp("server")
    with serving("server", server_environ(database_url, place / "home"), place) as url:
        yield url


@pytest.fixture
async def own_url(postgres: EmbeddedServer) -> str:
    """A database without a schema, for tests that change it."""
    name = f"evenbeat_own_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    await databases.create(postgres.url("postgres"), name)
    return postgres.url(name)


@pytest.fixture
def refuses() -> Callable[[subprocess.CompletedProcess[str]], str]:
    """Checks the one form that errors have, and gives what was said."""

    def check(ended: subprocess.CompletedProcess[str]) -> str:
        assert ended.returncode == 1, ended
        *before, last = ended.stderr.splitlines()
        assert last.startswith("evenbeat: "), ended.stderr
        assert not [line for line in before if "Traceback" in line or line.startswith("  File")]
        assert not [line for line in before if line.startswith("evenbeat: ")]
        return last.removeprefix("evenbeat: ")

    return check


@pytest.fixture
async def controlled(database: Database) -> ControlledJobs:
    """`bad` is dead, `good` has the one place of its group, and `late` waits for it."""
    controlled = await open_controlled_jobs(database)
    bad = await controlled.add(due("now", name="bad", payload={"n": 1}, policy={"max_attempts": 1}))
    await controlled.fail(bad)
    for name in ("good", "late"):
        await controlled.add(due("now", name=name, group=Group("site", max_running=1)))
        await controlled.take_all()
    return controlled


@pytest.fixture
async def letter(controlled: ControlledJobs) -> str:
    """The id of the dead letter, as people see it."""
    return str(run_uid(await controlled.value("select id from evenbeat.dead_letter")))


@pytest.fixture
def call(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Call]:
    """Calls `evenbeat …` on this test's database, in this process: one of its own takes a second.

    It has a thread, since it runs a loop and the test has one already.
    """
    monkeypatch.chdir(tmp_path)
    handlers, level = logging.root.handlers[:], logging.root.level

    async def call(*arguments: object, typed: str = "") -> Said:
        words = [str(each) for each in arguments]
        ended = await asyncio.to_thread(
            CliRunner().invoke, app, words, input=typed, env=environ, prog_name="evenbeat"
        )
        if isinstance(ended.exception, EvenbeatError):
            return Said(1, ended.stdout, f"evenbeat: {ended.exception}")
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return Said(ended.exit_code, ended.stdout, ended.stderr)

    yield call
    # A command makes the log its own, and its standard error is gone by now.
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
