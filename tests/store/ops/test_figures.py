"""Figures of the whole cluster: what waits and how late, who lives, what the server says."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from evenbeat.config import Settings
from evenbeat.control.ops.maintenance import MaintenanceSwitch
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import State
from evenbeat.core.ops.figures import ClusterFigures
from evenbeat.store.database import clock as clocks
from evenbeat.store.ops import figures, nodes
from tests.conftest import START
from tests.store.given import FAILED, HOUR, MINUTE, JobStore, definition
from tests.support.databases import Clock
from tests.support.run_histories import count, janitor_of

SECOND = timedelta(seconds=1)


async def take(job_store: JobStore) -> ClusterFigures:
    async with job_store.database.transaction() as session:
        await figures.save_job_counts(session)
        await figures.save_figures(session)
    found = await figures.read_figures(job_store.database)
    assert found is not None
    return found


async def test_there_are_none_before_somebody_looked(job_store: JobStore) -> None:
    assert await figures.read_figures(job_store.database) is None


async def test_jobs_are_counted_by_the_state_that_people_see(job_store: JobStore) -> None:
    for _ in range(3):
        await job_store.add()
    await job_store.claim(1)
    group = Group("few", max_running=1)
    for _ in range(2):
        await job_store.add(definition(group=group))
    await job_store.claim_grouped(2)
    deleted = await job_store.add(definition("once 2030-01-01T12:00:00Z"))
    await job_store.fetch(
        "update evenbeat.job set deleted_at = $1 where id = $2", START, deleted.id
    )
    taken = await take(job_store)
    assert taken.jobs == {State.SCHEDULED: 2, State.RUNNING: 2, State.BLOCKED: 1}
    assert taken.running == 2
    assert taken.counted_at == taken.taken_at == START


async def test_lanes_tell_what_waits_in_them_and_since_when(
    job_store: JobStore, clock: Clock
) -> None:
    await nodes.open_lanes(job_store.database, ["nobody"])
    for minutes in (1, 5, 3):
        await job_store.add(due_at=START + minutes * MINUTE)
    await job_store.add(definition(group=Group("few")), due_at=START + 2 * MINUTE)
    await job_store.add(definition(kind="nobody"), due_at=START)
    await clock.advance(minutes=4)
    lanes = {lane.kind: lane for lane in (await take(job_store)).lanes}
    assert (lanes["echo"].due, lanes["echo"].lag) == (3, 3 * MINUTE)
    assert (lanes["crawl"].due, lanes["crawl"].lag) == (0, timedelta(0))
    assert (lanes["nobody"].due, lanes["nobody"].is_served) == (1, False)
    assert (await take(job_store)).lag == 3 * MINUTE


async def test_what_somebody_runs_is_not_late(job_store: JobStore, clock: Clock) -> None:
    await job_store.add()
    await clock.advance(minutes=4)
    assert (await figures.read_lag(job_store.database)).served == 4 * MINUTE
    await job_store.claim()
    assert (await figures.read_lag(job_store.database)).served == timedelta(0)


async def test_nothing_is_late_during_maintenance(job_store: JobStore, clock: Clock) -> None:
    await job_store.add(due_at=START)
    await clock.advance(minutes=4)
    assert (await figures.read_lag(job_store.database)).schedule == 4 * MINUTE
    await MaintenanceSwitch(job_store.database).on("moving house")
    assert (await figures.read_lag(job_store.database)).schedule == timedelta(0)


async def test_the_lag_sees_behind_a_job_whose_priority_comes_first(
    job_store: JobStore, clock: Clock
) -> None:
    await job_store.add(due_at=START)
    await clock.advance(minutes=4)
    await job_store.add(definition(priority=100), due_at=START + 4 * MINUTE)
    assert (await figures.read_lag(job_store.database)).served == 4 * MINUTE


@pytest.mark.parametrize("state", ["is_parked = true", "state = 'z'", "state = 'x'"])
async def test_what_may_not_run_is_not_late(job_store: JobStore, clock: Clock, state: str) -> None:
    await job_store.add()
    await job_store.fetch(f"update evenbeat.pulse set {state}")
    await clock.advance(hours=4)
    lag = await figures.read_lag(job_store.database)
    assert (lag.served, lag.unserved) == (timedelta(0), timedelta(0))


async def test_what_no_node_serves_makes_the_schedule_late_only_if_nobody_lives(
    job_store: JobStore, clock: Clock
) -> None:
    await nodes.open_lanes(job_store.database, ["nobody"])
    await nodes.open_lanes(job_store.database, ["echo"], ["gpu"])
    await job_store.add(definition(kind="nobody"))
    await job_store.add(definition(runs_on=("gpu",)), due_at=START + HOUR)
    await clock.advance(hours=2)
    lag = await figures.read_lag(job_store.database)
    assert (lag.served, lag.unserved, lag.live_nodes) == (timedelta(0), 2 * HOUR, 1)
    assert lag.schedule == timedelta(0)
    assert lag.silent == timedelta(0)
    await job_store.fetch(
        "update evenbeat.node set alive_until = now() - interval '90 seconds', "
        "joined_at = now() - interval '1 hour'"
    )
    lag = await figures.read_lag(job_store.database)
    assert (lag.live_nodes, lag.schedule) == (0, 2 * HOUR)
    assert lag.silent is not None
    assert 90 * SECOND <= lag.silent < 120 * SECOND


async def test_nobody_ever_lived(job_store: JobStore) -> None:
    await job_store.fetch("delete from evenbeat.node")
    assert (await figures.read_lag(job_store.database)).silent is None


async def test_open_dead_letters_are_counted_and_dated(job_store: JobStore, clock: Clock) -> None:
    for _ in range(2):
        await job_store.add(definition(policy={"max_attempts": 1}))
    await job_store.end(*await job_store.claim(), outcome=FAILED)
    await clock.advance(hours=3)
    taken = await take(job_store)
    assert (taken.open_dead_letters, taken.oldest_dead_letter) == (2, 3 * HOUR)
    acknowledge = "update evenbeat.dead_letter set acknowledged_at = $1, acknowledged_by = 'ann'"
    await job_store.fetch(acknowledge, START)
    assert (await take(job_store)).open_dead_letters == 0


async def test_runs_are_told_by_kind_from_what_was_counted(
    job_store: JobStore, settings: Settings
) -> None:
    await job_store.add()
    await job_store.add()
    one, other = await job_store.claim()
    await job_store.end(one)
    await job_store.end(other, outcome=FAILED)
    await count(janitor_of(job_store.database, settings), job_store.database)
    [echo] = (await take(job_store)).runs
    assert (echo.kind, echo.completed, echo.failed, echo.lost) == ("echo", 1, 1, 0)


async def test_the_server_tells_of_a_transaction_that_is_held_open(job_store: JobStore) -> None:
    other: Any = await asyncpg.connect(job_store.database.url)
    try:
        await other.execute("begin isolation level repeatable read")
        await other.fetchval("select 1 from evenbeat.lane")
        for _ in range(20):
            await clocks.set_test_clock(job_store.database, START)
        database = (await take(job_store)).database
        assert database.xmin_age >= 20
        assert database.oldest_transaction > timedelta(0)
        assert database.size_bytes > 1_000_000
        assert 0 < database.connections <= database.max_connections
        assert "pulse" in {table.name for table in database.tables}
    finally:
        await other.close()
