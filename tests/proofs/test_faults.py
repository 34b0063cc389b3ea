"""Nodes die, freeze and lose their database at random moments."""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from evenbeat.core.errors import StoreUnavailable
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import Database
from tests.postgres.support import stop_for_certain
from tests.proofs.fleet import LEASE, Fleet, environ_for
from tests.support.waiting import eventually

pytestmark = pytest.mark.proof


async def test_20000_beats_while_nodes_are_killed_at_random(fleet: Fleet) -> None:
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    print(f"\nseed {seed}")
    span, deadlocks = timedelta(seconds=30), await fleet.deadlocks()
    living = await fleet.start(2)
    await fleet.add(13_000, seconds=0.002, spread=span)
    await fleet.add(1_500, seconds=0.06, spread=span, group="shared", limit=20)
    await fleet.add(200, seconds=0.01, every=timedelta(seconds=1))
    began, kills = time.monotonic(), 0
    while time.monotonic() - began < span.total_seconds():
        await asyncio.sleep(dice.uniform(0.5, 4))
        victim = dice.choice(living)
        await fleet.kill(victim)
        kills += 1
        living.remove(victim)
        living += await fleet.start()
    await eventually(lambda: has_run_once(fleet), "the end of the jobs that run once", patience=120)
    await fleet.stop()
    assert await fleet.breaches() == []
    await fleet.tell(f"{kills} times kill -9")
    assert await fleet.count_beats() >= 20_000
    assert await fleet.deadlocks() == deadlocks


async def has_run_once(fleet: Fleet) -> bool:
    return not await fleet.value(
        "select exists(select from evenbeat.pulse where state = 'p' or token is not null"
        " and not exists (select from evenbeat.job where job.id = pulse.id"
        "     and job.timetable -> 'schedule' ? 'every'))"
    )


async def test_a_node_frozen_beyond_its_lease_writes_nothing_when_it_wakes(fleet: Fleet) -> None:
    first, _ = await fleet.start(2, EVENBEAT_CONCURRENCY="20")
    await fleet.add(40, seconds=1.5)
    await fleet.add(20, seconds=0.01, every=timedelta(seconds=1))
    await fleet.started_runs(40)
    await fleet.freeze(first)
    await asyncio.sleep(LEASE.total_seconds() + 2)
    first.signal(signal.SIGCONT)
    await first.says("Run lost its lease")
    await eventually(lambda: first.output.count("Node joined") == 2, "a second life")
    await asyncio.sleep(3)
    await fleet.stop()
    assert await fleet.value("select count(*) from evenbeat.pulse where state = 'c'") == 40
    assert await fleet.breaches() == []
    await fleet.tell("frozen beyond the lease")


async def test_nodes_frozen_and_woken_at_random(fleet: Fleet) -> None:
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    print(f"\nseed {seed}")
    living = await fleet.start(3)
    await fleet.add(2_000, seconds=0.05, spread=timedelta(seconds=15))
    await fleet.add(500, seconds=0.1, spread=timedelta(seconds=15), group="shared", limit=10)
    began = time.monotonic()
    while time.monotonic() - began < 15:
        victim = dice.choice(living)
        await fleet.freeze(victim)
        await asyncio.sleep(dice.choice([0.3, LEASE.total_seconds() + 1]))
        victim.signal(signal.SIGCONT)
        await asyncio.sleep(dice.uniform(0.1, 0.5))
    await fleet.drained()
    await fleet.stop()
    assert await fleet.breaches() == []
    await fleet.tell("frozen at random")


@pytest.fixture
async def own_fleet(home: Path) -> AsyncIterator[tuple[Fleet, EmbeddedServer]]:
    """A fleet with a server of its own, that keeps what it promises to disk."""
    server = EmbeddedServer(home / "postgres")
    server.acquire()
    await migrations.migrate(server.url())
    database = Database(server.url())
    await database.open()
    fleet = Fleet(database, environ_for(server.url(), home), home)
    yield fleet, server
    fleet.clear()
    await database.close()
    server.release()
    stop_for_certain(home / "postgres")


async def test_the_postmaster_is_killed_and_comes_back(
    own_fleet: tuple[Fleet, EmbeddedServer],
) -> None:
    fleet, server = own_fleet
    processes = await fleet.start(2)
    await fleet.add(1_000, seconds=0.05, spread=timedelta(seconds=12))
    await fleet.add(300, seconds=0.1, spread=timedelta(seconds=12), group="shared", limit=10)
    supervisor = asyncio.ensure_future(server.supervise())
    for _ in range(3):
        await asyncio.sleep(2)
        before = await eventually(lambda: server.pid, "a server")
        os.kill(before, signal.SIGKILL)
        await eventually(lambda b=before: server.pid not in (None, b), "another server")
    await eventually(lambda: is_drained(fleet), "the end of the work", patience=90)
    # A node may have been declared dead while nobody could renew anything: its handlers ran on.
    fleet.gone |= {process.pid: await fleet.now() for process in processes}
    await fleet.stop()
    supervisor.cancel()
    assert await fleet.value("select count(*) from evenbeat.pulse where state = 'c'") == 1_300
    assert await fleet.breaches() == []
    fleet.gone.clear()
    await fleet.tell("postmaster killed three times")


async def is_drained(fleet: Fleet) -> bool:
    try:
        await fleet.drained(patience=0)
    except (AssertionError, StoreUnavailable, asyncpg.PostgresError):
        return False
    return True
