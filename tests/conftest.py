"""Fixtures of all tests: everything is real, and nothing is left behind."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hypothesis
import pytest

from evenbeat.config import Settings, load
from evenbeat.control.ops.token_signing import make_token
from evenbeat.core.ops.access import Role
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import clock as clocks
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import Database
from evenbeat.store.runs import sql_functions
from tests.postgres.support import free_port
from tests.support import databases, reused_connections
from tests.support.database_reset import DatabaseReset
from tests.support.databases import Clock
from tests.support.poolers import Pooler, over_tcp
from tests.support.processes import Api, Process
from tests.support.reused_connections import ReusedConnections

# No deadline: speed is measured in bench/, since tests share their machine. The same examples every
# time, so that no change fails by an unrelated find. To search for new examples, run
# `HYPOTHESIS_PROFILE=exploring ./dev test tests/core`.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.register_profile("exploring", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
START = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECRET = "a secret that only these tests know, long enough"
# For the proof that runs other tests behind pgbouncer.
BEHIND_A_POOLER = bool(os.environ.get("BEHIND_A_POOLER"))
# After every test in these folders, `evenbeat verify` must find nothing.
FOLDERS = (
    *("engine", "sql", "control", "contracts", "faults", "placement", "proofs", "python"),
    "examples",
)
VERIFIED = [Path(__file__).with_name(name) for name in FOLDERS]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_verified = any(item.path.is_relative_to(folder) for folder in VERIFIED)
        if is_verified and isinstance(item, pytest.Function) and "database" in item.fixturenames:
            item.fixturenames.append("verified")


def pytest_asyncio_loop_factories(item: pytest.Function) -> dict[str, LoopFactory]:
    # Behind a pooler, connections cannot be reused: it resets what was set on them.
    is_reused = "database" in item.fixturenames and not BEHIND_A_POOLER
    return {"reused": reused_connections.loop} if is_reused else {"new": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """One server per test run, shared by the workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    run = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    # A pooler reaches it by TCP only.
    port = free_port() if BEHIND_A_POOLER else None
    settings = {"autovacuum": "off", "scram_iterations": "1"}
    server = EmbeddedServer(run / "postgres", port=port, durable=False, settings=settings)
    server.acquire()
    asyncio.run(databases.shorten_logins(server.url("postgres")))
    yield server
    server.release()
    if server.pid is None:
        shutil.rmtree(run / "postgres", ignore_errors=True)


@pytest.fixture(scope="session")
def database_url(postgres: EmbeddedServer) -> str:
    """A migrated database of this worker's own, with a clock that can be set."""
    name = f"evenbeat_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    url = postgres.url(name)

    async def make() -> None:
        await databases.create(postgres.url("postgres"), name)
        await migrations.migrate(url)
        database = Database(url)
        await database.open()
        await clocks.install_test_clock(database)
        await sql_functions.install_settle_function(database)
        await database.close()

    asyncio.run(make())
    return url


@pytest.fixture(scope="session")
def connection_url(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL that tests connect to: the database's own, or that of a pooler in front of it."""
    if not BEHIND_A_POOLER:
        yield database_url
        return
    pooler = Pooler(over_tcp(database_url), tmp_path_factory.mktemp("pooler"), free_port())
    asyncio.run(pooler.ready())
    yield pooler.url
    pooler.stop()


@pytest.fixture(scope="session")
def database_reset(database_url: str) -> Iterator[DatabaseReset]:
    database_reset = DatabaseReset(database_url)
    yield database_reset
    database_reset.leave()


@pytest.fixture
def empty_database(database_reset: DatabaseReset) -> None:
    database_reset.prepare(START)


@pytest.fixture(scope="session")
def connections(connection_url: str) -> Iterator[ReusedConnections]:
    connections = ReusedConnections()
    yield connections
    connections.end()


@pytest.fixture
async def database(
    connection_url: str, empty_database: None, connections: ReusedConnections
) -> AsyncIterator[Database]:
    """An empty database whose clock stands at START."""
    database = connections.database(connection_url)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def verified(
    request: pytest.FixtureRequest, database: Database, database_reset: DatabaseReset
) -> Iterator[None]:
    """Checks for breaches at the end of a test, unless the test is marked as making them."""
    yield
    if request.node.get_closest_marker("breaks_rules") is None:
        assert database_reset.breaches(database) == []


@pytest.fixture
def clock(database: Database) -> Clock:
    return Clock(database, START)


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> Settings:
    """Settings for this test's database and clock, with short intervals."""
    return load(
        environ={},
        cwd=tmp_path,
        database_url=database.url,
        clock="set",
        jwt_secret=SECRET,
        data_dir=tmp_path / "home",
        check_interval="100ms",
        stale_check_interval="100ms",
        lease_duration="2s",
        drain_timeout="5s",
        # Off, so that beats come at round times, except in tests of balancing.
        balancing="off",
    )


@pytest.fixture
def environ(settings: Settings) -> dict[str, str]:
    """The same settings as environment variables, for processes."""
    assert settings.database_url is not None
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "EVENBEAT_DATABASE_URL": settings.database_url.get_secret_value(),
        "EVENBEAT_CLOCK": "set",
        "EVENBEAT_JWT_SECRET": SECRET,
        "EVENBEAT_DATA_DIR": str(settings.data_dir),
        "EVENBEAT_PORT": "0",
        "EVENBEAT_CHECK_INTERVAL": "100ms",
        "EVENBEAT_STALE_CHECK_INTERVAL": "100ms",
        "EVENBEAT_LEASE_DURATION": "2s",
        "EVENBEAT_BALANCING": "off",
    }


@pytest.fixture
def start(environ: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts real processes: `start("worker", EVENBEAT_CONCURRENCY="1")`."""
    started: list[Process] = []

    def begin(*arguments: str, cwd: Path = tmp_path, **more: str) -> Process:
        process = Process(*arguments, environ=environ | more, cwd=cwd)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[Callable[..., Api]]:
    """Makes clients: `client(url)` is an admin, `client(url, role=None)` has no token."""
    made: list[Api] = []

    def make(url: str, role: Role | None = Role.ADMIN) -> Api:
        life = timedelta(days=3650)
        token = role and make_token(settings, name="tests", role=role, lifetime=life)
        made.append(Api(url, token))
        return made[-1]

    yield make
    for api in made:
        await api.http.aclose()


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that every user of the machine may enter, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="evenbeat-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)
