"""Many nodes, and much that is due at once."""

import time
from datetime import timedelta

import pytest

from tests.proofs.fleet import Fleet, most_at_once

pytestmark = pytest.mark.proof


async def test_ten_nodes_with_100_runs_at_once(fleet: Fleet) -> None:
    await fleet.start(10, EVENBEAT_CONCURRENCY="10", EVENBEAT_POOL_SIZE="3")
    began = time.monotonic()
    await fleet.add(1_000, seconds=1)
    await fleet.drained()
    spent = time.monotonic() - began
    await fleet.stop()
    most = most_at_once(fleet.lines())
    print(f"\nten nodes: 1,000 runs of 1 s in {spent:.1f} s, up to {most} at once")
    assert await fleet.value("select count(*) from evenbeat.run where state = 'c'") == 1_000
    assert await fleet.value("select count(distinct node_id) from evenbeat.run") == 10
    assert await fleet.breaches() == []
    assert 90 <= most <= 100


async def test_10000_jobs_after_a_day_of_downtime_drain_within_their_limits(fleet: Fleet) -> None:
    deadlocks = await fleet.deadlocks()
    day = {"every": timedelta(hours=1), "since": timedelta(days=1)}
    await fleet.add(8_000, **day)
    for number in range(20):
        await fleet.add(100, seconds=0.1, group=f"group {number}", limit=5, **day)
    began = time.monotonic()
    await fleet.start(2)
    await fleet.drained()
    spent = time.monotonic() - began
    await fleet.stop()
    completed = "select count(*) from evenbeat.run where state = 'c' and cause = 'u'"
    missed = "select count(*) from evenbeat.run where state = 'k' and skipped_count >= 22"
    assert await fleet.value(completed) == 10_000
    assert await fleet.value(missed) == 10_000
    assert await fleet.breaches() == []
    assert await fleet.deadlocks() == deadlocks
    print(f"\na day's downtime: 10,000 jobs, 2,000 of them in groups, drained in {spent:.1f} s")
