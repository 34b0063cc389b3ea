"""Fixtures: a token reader, keys, and an issuer that publishes them."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from evenbeat.config import Settings
from evenbeat.core.ops.access import Role
from tests.support import databases
from tests.support.issuer import Issuer, Signer, publishing
from tests.support.serving import SECRET, client_of, server_environ, serving, token_for


class Stopwatch:
    """Elapsed time that a test moves on."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture(scope="session")
def rsa_key() -> Signer:
    return Signer("RS256", "rsa-1")


@pytest.fixture(scope="session")
def ec_key() -> Signer:
    return Signer("ES256", "ec-1")


@pytest.fixture
def issuer(rsa_key: Signer, ec_key: Signer) -> Iterator[Issuer]:
    """Publishes one key of each algorithm."""
    with publishing() as made:
        made.publish(rsa_key.jwk(), ec_key.jwk())
        yield made


@pytest.fixture
def settings_with(tmp_path: Path) -> Callable[..., Settings]:
    def make(**more: object) -> Settings:
        return Settings(jwt_secret=SECRET, data_dir=tmp_path, **more)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="module")
def address(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    asyncio.run(databases.empty(database_url))
    place = tmp_path_factory.mktemp("server")
    with serving("server", server_environ(database_url, place / "home"), place) as url:
        yield url


@pytest.fixture(scope="module")
def admin(address: str) -> Iterator[httpx.Client]:
    with client_of(address, token_for(Role.ADMIN)) as client:
        yield client
