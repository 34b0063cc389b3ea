"""The network between nodes and PostgreSQL is cut, half cut, or slow, while there is work."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from evenbeat.store.database.pool import Database
from tests.proofs.fleet import LEASE, Fleet, environ_for
from tests.support.network import Network, network
from tests.support.waiting import eventually

pytestmark = pytest.mark.proof
# Beyond the lease, and beyond the five seconds that a statement has.
LONG = 8.0


@pytest.fixture
async def far_fleet(database: Database, tmp_path: Path) -> AsyncIterator[tuple[Fleet, Network]]:
    """Nodes beyond a network; whoever checks them is on this side of it."""
    by_the_clock = Database(database.url)
    await by_the_clock.open()
    async with network(database.url) as wire:
        fleet = Fleet(by_the_clock, environ_for(wire.url, tmp_path), tmp_path)
        yield fleet, wire
        fleet.clear()
    await by_the_clock.close()


def both_ways(wire: Network) -> None:
    wire.cut()


def answers_alone(wire: Network) -> None:
    wire.answers = False


def requests_alone(wire: Network) -> None:
    wire.takes = False


def slow(wire: Network) -> None:
    wire.delay = 0.3


NOT_COMPLETED = """
    select pulse.id, pulse.state, pulse.token, pulse.due_at, pulse.retry_at, pulse.is_parked,
        pulse.lost_streak, run.state as run_state, run.error_class, run.error, run.reason
    from evenbeat.pulse
    join evenbeat.job on job.id = pulse.id
    left join evenbeat.run on run.job_id = pulse.id
    where job.timetable -> 'schedule' ? 'once' and pulse.state <> 'c'
    order by run.id
"""


@pytest.mark.parametrize("fault", [both_ways, answers_alone, requests_alone, slow])
async def test_nodes_go_on_by_themselves_when_the_network_heals(
    far_fleet: tuple[Fleet, Network], fault
) -> None:
    fleet, wire = far_fleet
    processes = await fleet.start(2, EVENBEAT_CONCURRENCY="20")
    await fleet.add(600, seconds=0.05, spread=timedelta(seconds=12))
    await fleet.add(150, seconds=0.05, spread=timedelta(seconds=12), group="shared", limit=5)
    await fleet.add(10, seconds=0.01, every=timedelta(seconds=1))
    await fleet.started_runs(100)
    fault(wire)
    await asyncio.sleep(LONG)
    wire.heal()
    wire.delay = 0.0
    healed_at, before = time.monotonic(), len(fleet.lines())
    await eventually(lambda: len(fleet.lines()) > before + 20, "runs again")
    resumed_after = time.monotonic() - healed_at
    await fleet.drained()
    # Cut off for longer than their lease: their handlers ran on.
    assert LEASE.total_seconds() < LONG
    fleet.gone |= {process.pid: await fleet.now() for process in processes}
    await fleet.stop()
    left = await fleet.fetch(NOT_COMPLETED)
    assert left == [], "one-off jobs that are not completed"
    assert await fleet.breaches() == []
    fleet.gone.clear()
    await fleet.tell(f"network: {fault.__name__}, resumed {resumed_after:.1f} s after it healed")
