"""What placing one job costs, and that it costs more rather than go wrong where others place."""

import asyncio
from collections.abc import Awaitable, Collection
from uuid import UUID

import pytest
from asyncpg.connection import LoggedQuery

from evenbeat.store.balance import load_map
from evenbeat.store.balance.load_map import UnplacedJobs
from evenbeat.store.database.clock import SOON, WAKE_CHANNEL
from evenbeat.store.database.pool import Session
from tests.conftest import START
from tests.placement.placed_jobs import PlacedJobs, beat_of, open_placed_jobs, timed
from tests.support.waiting import eventually

INSERT_LOOK_AND_WRITE = 3
WAITING = "select 1 from pg_locks where not granted"


async def cost(placed_jobs: PlacedJobs, meanwhile: Awaitable[object] | None = None) -> int:
    """How many statements it takes to add another job; a clock that is set is asked besides."""
    jobs = placed_jobs.jobs
    await jobs.add(timed())
    if meanwhile is not None:
        await meanwhile
    asked: list[str] = []

    def note(record: LoggedQuery) -> None:
        if record.query != "select evenbeat_clock.now()":
            asked.append(record.query)

    async with placed_jobs.database.connection() as connection:
        connection.add_query_logger(note)
    await jobs.add(timed())
    async with placed_jobs.database.connection() as connection:
        connection.remove_query_logger(note)
    return len(asked)


async def test_a_job_is_placed_by_two_statements(placed_jobs: PlacedJobs) -> None:
    assert await cost(placed_jobs) == INSERT_LOOK_AND_WRITE
    assert await placed_jobs.count() == 2


async def test_what_others_have_placed_comes_along(placed_jobs: PlacedJobs) -> None:
    other = await open_placed_jobs(placed_jobs.database)
    assert await cost(placed_jobs, other.make()) == INSERT_LOOK_AND_WRITE
    assert await placed_jobs.count() == 3


async def test_a_change_that_was_undone_costs_a_lock_once(placed_jobs: PlacedJobs) -> None:
    undone = placed_jobs.fetch("select nextval('evenbeat.load_delta_seq_seq')")
    assert await cost(placed_jobs, undone) > INSERT_LOOK_AND_WRITE
    assert await cost(placed_jobs) == INSERT_LOOK_AND_WRITE
    assert await placed_jobs.count() == 4


async def test_where_another_places_between_look_and_write_a_job_gives_way_to_it(
    placed_jobs: PlacedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    await placed_jobs.make()
    look, others = load_map.find_unplaced_among, [await open_placed_jobs(placed_jobs.database)]

    async def slowly(session: Session, seen: int, uids: Collection[UUID]) -> UnplacedJobs | None:
        seen_first = await look(session, seen, uids)
        while others:
            await others.pop().make()
        return seen_first

    monkeypatch.setattr(load_map, "find_unplaced_among", slowly)
    job = await placed_jobs.make()
    assert await placed_jobs.find(job) == job
    assert await placed_jobs.placed_at(job) == START
    assert max((await placed_jobs.true_ring()).slot) == 1
    assert await placed_jobs.count() == 3


async def test_where_another_is_about_to_place_a_job_waits_for_it(placed_jobs: PlacedJobs) -> None:
    await placed_jobs.make()
    async with asyncio.TaskGroup() as both, placed_jobs.database.transaction() as session:
        await load_map.lock_load_map(session)
        adding = both.create_task(placed_jobs.make())
        await eventually(lambda: placed_jobs.fetch(WAITING), "waits for the lock")
        assert await placed_jobs.value("select count(*) from evenbeat.placement") == 1
    job = adding.result()
    assert (await placed_jobs.placed_at(job), beat_of(await placed_jobs.find(job))) == (
        START,
        beat_of(job),
    )
    assert await placed_jobs.count() == 2


@pytest.mark.parametrize("damage", ["delete from evenbeat.placing", "truncate evenbeat.placing"])
async def test_where_there_is_nothing_to_lock_it_is_put_back(
    placed_jobs: PlacedJobs, damage: str
) -> None:
    await placed_jobs.fetch(damage)
    job = await placed_jobs.make()
    assert await placed_jobs.placed_at(job) == START
    assert await cost(placed_jobs) == INSERT_LOOK_AND_WRITE
    assert await placed_jobs.count() == 3


async def test_two_who_find_nothing_to_lock_still_go_one_after_the_other(
    placed_jobs: PlacedJobs,
) -> None:
    await placed_jobs.fetch("delete from evenbeat.placing")
    async with asyncio.TaskGroup() as both, placed_jobs.database.transaction() as session:
        await load_map.lock_load_map(session)
        adding = both.create_task(placed_jobs.make())
        await eventually(lambda: placed_jobs.fetch(WAITING), "waits for the lock")
        assert await placed_jobs.value("select count(*) from evenbeat.placement") == 0
    assert await placed_jobs.placed_at(adding.result()) == START


async def test_a_job_that_is_placed_soon_wakes_the_nodes(placed_jobs: PlacedJobs) -> None:
    """Added with its first beat 15 seconds away, it has woken nobody yet."""
    heard: list[object] = []

    def hear(*told: object) -> None:
        heard.append(told)

    async with placed_jobs.database.connection() as connection:
        await connection.add_listener(WAKE_CHANNEL, hear)
        jobs = [await placed_jobs.make("every 15s") for _ in range(8)]
        assert min(map(beat_of, jobs)) < START + SOON
        await eventually(lambda: heard, "the nodes are woken")
        await connection.remove_listener(WAKE_CHANNEL, hear)
