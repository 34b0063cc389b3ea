"""Fixtures for pytest, which finds them by itself where Evenbeat is installed.

The fixtures import Evenbeat: a test run that uses none of them does not load it.
"""

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("evenbeat").addoption(
        "--evenbeat-database",
        metavar="URL",
        help="PostgreSQL on which tests may create databases; without it one is started",
    )


@pytest.fixture(scope="session")
def evenbeat_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A PostgreSQL for this test run; workers of pytest-xdist share it."""
    from evenbeat.testing.server import TestServer

    base = tmp_path_factory.getbasetemp()
    run = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    server = TestServer(run / "evenbeat", request.config.getoption("--evenbeat-database"))
    server.open()
    yield server
    server.close()


@pytest.fixture
def evenbeat_app() -> Any:
    """The app under test: override it in conftest.py with your own."""
    from evenbeat.app import Evenbeat

    return Evenbeat()


@pytest.fixture
def evenbeat_starts_at() -> datetime | None:
    """The time of the clock when a test begins; None: noon (UTC) of 1 January 2030."""
    return None


@pytest.fixture
def evenbeat_kit(
    evenbeat_app: Any, evenbeat_server: Any, evenbeat_starts_at: datetime | None
) -> Iterator[Any]:
    """The app with an empty database and a clock of its own: `async with evenbeat_kit as kit`."""
    from evenbeat.testing.kit import Kit

    url = evenbeat_server.new_database()
    yield Kit(evenbeat_app, url, evenbeat_starts_at)
    evenbeat_server.drop(url)
