"""Placing one job without the lock: two statements, or more where other processes place jobs."""

import asyncio
from collections.abc import Awaitable, Collection
from uuid import UUID

import pytest
from asyncpg.connection import LoggedQuery

from evenbeat.store.balance import load_map, unplaced_jobs
from evenbeat.store.balance.unplaced_jobs import UnplacedJobs
from evenbeat.store.database.clock import SOON, WAKE_CHANNEL
from evenbeat.store.database.pool import Session
from tests.conftest import START
from tests.placement.placed_jobs import PlacedJobs, beat_of, open_placed_jobs, timed
from tests.support.waiting import eventually

INSERT_FIND_AND_WRITE = 3
WAITING = "select 1 from pg_locks where not granted"


async def cost(placed: PlacedJobs, meanwhile: Awaitable[object] | None = None) -> int:
    """How many statements it takes to add another job; reading the test clock does not count."""
    jobs = placed.jobs
    await jobs.add(timed())
    if meanwhile is not None:
        await meanwhile
    queries: list[str] = []

    def note(record: LoggedQuery) -> None:
        if record.query != "select evenbeat_clock.now()":
            queries.append(record.query)

    async with placed.database.connection() as connection:
        connection.add_query_logger(note)
    await jobs.add(timed())
    async with placed.database.connection() as connection:
        connection.remove_query_logger(note)
    return len(queries)


async def test_a_job_is_placed_by_two_statements(placed: PlacedJobs) -> None:
    assert await cost(placed) == INSERT_FIND_AND_WRITE
    assert await placed.count() == 2


async def test_the_changes_of_other_processes_come_with_the_same_statement(
    placed: PlacedJobs,
) -> None:
    other = await open_placed_jobs(placed.database)
    assert await cost(placed, other.make()) == INSERT_FIND_AND_WRITE
    assert await placed.count() == 3


async def test_a_change_that_was_undone_costs_a_lock_once(placed: PlacedJobs) -> None:
    undone = placed.fetch("select nextval('evenbeat.load_delta_seq_seq')")
    assert await cost(placed, undone) > INSERT_FIND_AND_WRITE
    assert await cost(placed) == INSERT_FIND_AND_WRITE
    assert await placed.count() == 4


async def test_a_job_avoids_one_that_another_process_placed_between_find_and_write(
    placed: PlacedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    await placed.make()
    find, others = unplaced_jobs.find_unplaced_among, [await open_placed_jobs(placed.database)]

    async def slowly(session: Session, seen: int, uids: Collection[UUID]) -> UnplacedJobs | None:
        found_first = await find(session, seen, uids)
        while others:
            await others.pop().make()
        return found_first

    monkeypatch.setattr(unplaced_jobs, "find_unplaced_among", slowly)
    job = await placed.make()
    assert await placed.find(job) == job
    assert await placed.placed_at(job) == START
    assert max((await placed.true_ring()).slot) == 1
    assert await placed.count() == 3


async def test_a_job_waits_for_a_process_that_holds_the_lock(placed: PlacedJobs) -> None:
    await placed.make()
    async with asyncio.TaskGroup() as both, placed.database.transaction() as session:
        await load_map.lock_load_map(session)
        adding = both.create_task(placed.make())
        await eventually(lambda: placed.fetch(WAITING), "waits for the lock")
        assert await placed.value("select count(*) from evenbeat.placement") == 1
    job = adding.result()
    assert (await placed.placed_at(job), beat_of(await placed.find(job))) == (START, beat_of(job))
    assert await placed.count() == 2


@pytest.mark.parametrize("damage", ["delete from evenbeat.placing", "truncate evenbeat.placing"])
async def test_a_missing_lock_row_is_put_back(placed: PlacedJobs, damage: str) -> None:
    await placed.fetch(damage)
    job = await placed.make()
    assert await placed.placed_at(job) == START
    assert await cost(placed) == INSERT_FIND_AND_WRITE
    assert await placed.count() == 3


async def test_two_processes_that_find_no_lock_row_still_place_one_after_the_other(
    placed: PlacedJobs,
) -> None:
    await placed.fetch("delete from evenbeat.placing")
    async with asyncio.TaskGroup() as both, placed.database.transaction() as session:
        await load_map.lock_load_map(session)
        adding = both.create_task(placed.make())
        await eventually(lambda: placed.fetch(WAITING), "waits for the lock")
        assert await placed.value("select count(*) from evenbeat.placement") == 0
    assert await placed.placed_at(adding.result()) == START


async def test_a_job_that_is_placed_soon_wakes_the_nodes(placed: PlacedJobs) -> None:
    """Its first beat was 15 seconds away when it was added: that did not wake the nodes."""
    notified: list[object] = []

    def on_notify(*arguments: object) -> None:
        notified.append(arguments)

    async with placed.database.connection() as connection:
        await connection.add_listener(WAKE_CHANNEL, on_notify)
        jobs = [await placed.make("every 15s") for _ in range(8)]
        assert min(map(beat_of, jobs)) < START + SOON
        await eventually(lambda: notified, "the nodes are woken")
        await connection.remove_listener(WAKE_CHANNEL, on_notify)
