"""Homes for embedded servers: each test's own, with nothing left running in it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres.support import Holder, stop_for_certain


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Below pytest's private directory, which nobody but the one who runs the tests can enter."""
    path = tmp_path / "home"
    yield path
    stop_for_certain(path)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that every user can enter."""
    place = Path(tempfile.mkdtemp(prefix="evenbeat-test-", dir="/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def open_home(open_place: Path) -> Iterator[Path]:
    path = open_place / "home"
    yield path
    stop_for_certain(path)


@pytest.fixture
def holder() -> Iterator[Callable[..., Holder]]:
    holders: list[Holder] = []

    def start(home: Path, **options) -> Holder:
        holders.append(Holder(home, **options))
        return holders[-1]

    yield start
    for each in holders:
        each.kill()


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else, or mount a file system")
