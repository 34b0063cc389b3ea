"""A transaction elsewhere is held open, and nothing can be vacuumed: the work goes on as before."""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import ENGINE_SETTINGS, SESSION_SETTINGS, Database, Session
from evenbeat.store.database.route import Route
from evenbeat.store.ops import nodes
from evenbeat.store.runs import leases
from tests.postgres.support import stop_for_certain
from tests.proofs.fleet import Fleet, environ_for

pytestmark = pytest.mark.proof
# Minutes in earnest: `HELD_OPEN=600 ./dev prove tests/proofs/test_held_open.py -s`.
HELD_OPEN = float(os.environ.get("HELD_OPEN", "15"))
BURST = 2_000
DEAD = "select n_dead_tup from pg_stat_user_tables where relname = 'pulse'"


@pytest.fixture
async def vacuumed_fleet(home: Path) -> AsyncIterator[Fleet]:
    """With a server of its own, that vacuums as it does everywhere."""
    server = EmbeddedServer(home / "postgres")
    server.acquire()
    await migrations.migrate(server.url())
    database = Database(server.url())
    await database.open()
    fleet = Fleet(database, environ_for(server.url(), home), home)
    yield fleet
    fleet.clear()
    await database.close()
    server.release()
    stop_for_certain(home / "postgres")


async def throughput(fleet: Fleet) -> float:
    """Runs a second, of jobs that are all due at once."""
    await fleet.add(BURST)
    began = time.monotonic()
    await fleet.drained()
    return BURST / (time.monotonic() - began)


async def claim_time(fleet: Fleet, *, looks_back: bool) -> float:
    """What a claim takes in milliseconds, as nodes make most, or one that looks at all turns."""
    lease = timedelta(minutes=10)
    node = await nodes.join_node(
        fleet.database, "probe:1", kinds=["effect"], labels=[], lease_duration=lease
    )
    [lane] = [each for each in await nodes.list_lanes(fleet.database) if each.kind == "effect"]
    connection = await Route(fleet.database.url).connect(SESSION_SETTINGS | ENGINE_SETTINGS)
    took: list[float] = []
    for _ in range(30):
        since = None if looks_back else await fleet.now()
        transaction = connection.transaction()
        await transaction.start()
        began = time.monotonic()
        await Session(connection, "database").fetch(
            leases.SQL["claim_due"],
            node_id=node,
            token=1,
            lane_ids=[lane.id],
            places=[100],
            since=[since],
        )
        took.append((time.monotonic() - began) * 1000)
        await transaction.rollback()
        await asyncio.sleep(0.05)
    await connection.close()
    await nodes.leave(fleet.database, node)
    return statistics.median(took)


async def test_the_work_goes_on_while_a_transaction_is_held_open(vacuumed_fleet: Fleet) -> None:
    fleet = vacuumed_fleet
    await fleet.start(2)
    await throughput(fleet)
    rate = max([await throughput(fleet) for _ in range(3)])
    claim = await claim_time(fleet, looks_back=True)
    holder = await asyncpg.connect(fleet.database.url)
    async with holder.transaction(isolation="repeatable_read"):
        await holder.fetchval("select count(*) from evenbeat.pulse")
        until = time.monotonic() + HELD_OPEN
        while time.monotonic() < until:
            await throughput(fleet)
        dead = await fleet.value(DEAD)
        held_rate = max([await throughput(fleet) for _ in range(3)])
        held_claim = await claim_time(fleet, looks_back=False)
        look_back = await claim_time(fleet, looks_back=True)
    await holder.close()
    await fleet.stop()
    print(
        f"\nheld open for {HELD_OPEN:.0f} s: {rate:.0f} runs/s before, {held_rate:.0f} at its end"
        f" ({held_rate / rate:.0%}); a claim {claim:.1f} ms before, {held_claim:.1f} ms at its end,"
        f" {look_back:.1f} ms with all turns looked at; {dead} dead rows"
    )
    assert await fleet.breaches() == []
    assert dead > BURST, "everything was vacuumed nevertheless"
    # Nine tenths is what we want; dead rows that cannot be vacuumed still cost the rest.
    assert held_rate >= 0.6 * rate
    assert held_claim <= 3 * claim
