"""Processes with the embedded server, each test in a home of its own."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from evenbeat.core.ops.access import Role
from evenbeat.postgres.postmaster import Postmaster
from tests.postgres.support import stop_for_certain
from tests.support.processes import EVENBEAT, Api, Process
from tests.support.serving import SECRET, token_for


class Place:
    """A directory in which people call `evenbeat`, with nothing set but a free port."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data_dir = path / ".evenbeat"
        self.environ = {"PATH": os.environ.get("PATH", os.defpath), "EVENBEAT_PORT": "0"}
        self._started: list[Process] = []

    def start(self, *arguments: str, **more: str) -> Process:
        process = Process(*arguments, environ=self.environ | more, cwd=self.path)
        self._started.append(process)
        return process

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [EVENBEAT, *arguments],
            env=self.environ,
            cwd=self.path,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )

    @property
    def postmaster(self) -> int | None:
        noted = Postmaster(self.data_dir / "data").running()
        return noted.pid if noted else None

    def has_postgres(self) -> bool:
        return Postmaster(self.data_dir / "data").has_processes()

    def clear(self) -> None:
        for process in self._started:
            process.kill()
        stop_for_certain(self.data_dir)


@pytest.fixture
def place(home: Path) -> Iterator[Place]:
    place = Place(home)
    yield place
    place.clear()


@pytest.fixture
def secret_place(place: Place) -> Place:
    """The same with the secret that the tests' clients know, and everything quick."""
    place.environ |= {
        "EVENBEAT_JWT_SECRET": SECRET,
        "EVENBEAT_CHECK_INTERVAL": "100ms",
        "EVENBEAT_STALE_CHECK_INTERVAL": "100ms",
        "EVENBEAT_LEASE_DURATION": "2s",
    }
    return place


@pytest.fixture
async def api_at() -> AsyncIterator[Callable[..., Api]]:
    """Clients: `api_at(url)` is an operator's."""
    made: list[Api] = []

    def make(url: str, token: str | None = None) -> Api:
        made.append(Api(url, token or token_for(Role.OPERATOR)))
        return made[-1]

    yield make
    for api in made:
        await api.http.aclose()
