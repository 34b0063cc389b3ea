"""A fleet behind pgbouncer in transaction mode, and the tests of the engine behind it."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import Database
from tests.postgres.support import free_port, stop_for_certain
from tests.proofs.fleet import Fleet, environ_for
from tests.support.poolers import over_tcp, pooler
from tests.support.programs import program

pytestmark = pytest.mark.proof
ROOT = Path(__file__).resolve().parents[2]
# It waits for the notification that no pooler lets through.
NEEDS_NOTIFICATIONS = (
    "test_a_new_job_wakes_a_node_that_would_have_slept_on",
    "test_a_node_held_back_by_maintenance_is_woken_when_it_is_switched_off",
)


@pytest.fixture
async def pooled_fleet(home: Path) -> AsyncIterator[Fleet]:
    program("pgbouncer", "pgbouncer")
    server = EmbeddedServer(home / "postgres", port=free_port())
    server.acquire()
    async with pooler(over_tcp(server.url()), home, free_port()) as bouncer:
        await migrations.migrate(bouncer.url)
        database = Database(bouncer.url)
        await database.open()
        fleet = Fleet(database, environ_for(bouncer.url, home), home)
        yield fleet
        fleet.clear()
        await database.close()
    server.release()
    stop_for_certain(home / "postgres")


async def test_a_fleet_behind_a_pooler_loses_nothing(pooled_fleet: Fleet) -> None:
    fleet = pooled_fleet
    dying, other = await fleet.start(2, EVENBEAT_CONCURRENCY="20")
    began = time.monotonic()
    await fleet.add(1_000, seconds=0.05, spread=timedelta(seconds=6))
    await fleet.add(200, seconds=0.05, spread=timedelta(seconds=6), group="shared", limit=10)
    await fleet.add(20, seconds=0.01, every=timedelta(seconds=1))
    await fleet.started_runs(300)
    await fleet.kill(dying)
    await fleet.start(EVENBEAT_CONCURRENCY="20")
    await fleet.drained()
    spent = time.monotonic() - began
    await fleet.stop()
    assert other.output.count("Behind a pooler: polling") == 1
    assert await fleet.value("select count(*) from evenbeat.pulse where state = 'c'") == 1_200
    assert await fleet.breaches() == []
    await fleet.tell(f"behind a pooler, in {spent:.1f} s")


@pytest.mark.parametrize("tests", ["tests/engine", "tests/contracts tests/api"])
def test_other_tests_pass_behind_a_pooler(tests: str) -> None:
    program("pgbouncer", "pgbouncer")
    chosen = ["-m", "not proof", "-n", "0", "-q", "-k"]
    chosen.append(f"not ({' or '.join(NEEDS_NOTIFICATIONS)})")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen, *tests.split()],
        cwd=ROOT,
        env={**os.environ, "BEHIND_A_POOLER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    print(f"\n{tests} behind a pooler: {done.stdout.strip().splitlines()[-1]}")
