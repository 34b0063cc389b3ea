"""The command as people call it: its output, its exit code."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evenbeat.postgres import EmbeddedServer
from tests.support import databases
from tests.support.processes import EVENBEAT
from tests.support.serving import server_environ, serving

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def evenbeat(tmp_path: Path) -> Command:
    """Calls `evenbeat …` in an empty directory, with no settings but those given."""

    def call(*arguments: str, typed: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [EVENBEAT, *arguments],
            env={"PATH": os.environ.get("PATH", os.defpath), **environ},
            cwd=tmp_path,
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

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
