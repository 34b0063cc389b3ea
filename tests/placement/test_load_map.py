"""The map is in the database: every process that reads it, now or later, sees the same."""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from evenbeat.config import Settings
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.balance.score import measure_score
from evenbeat.core.runs.registry import Registry
from evenbeat.engine.ops.janitor import Janitor
from evenbeat.observe import log
from evenbeat.placement.placement_updates import PlacedJob
from evenbeat.placement.placer import Placer
from evenbeat.store.balance import load_map, unplaced_jobs
from evenbeat.store.database.pool import Database
from tests.conftest import START
from tests.placement.placed_jobs import (
    HOUR,
    PlacedJobs,
    assert_same,
    beat_of,
    open_placed_jobs,
    phase_of,
    timed,
)
from tests.support.databases import EMPTY, Clock

ROWS = """
    select job.id, job.timetable, job.version, pulse.next_beat_at, pulse.plan_version, placement
    from evenbeat.job
    join evenbeat.pulse using (id)
    left join evenbeat.placement on placement.job_id = job.id
    order by 1
"""


async def test_a_restart_changes_nothing(placed: PlacedJobs) -> None:
    await placed.jobs.add_many([timed("every 1h"), timed("every 1d"), timed("daily 06:00")] * 5)
    before = await placed.fetch(ROWS)
    again = await open_placed_jobs(placed.database)
    assert await again.placement.place_waiting() == 0
    assert await placed.fetch(ROWS) == before
    assert_same(await placed.placement.ring(), await again.placement.ring())


async def test_a_process_that_reads_the_map_logs_how_even_it_is(database: Database) -> None:
    crowded = await open_placed_jobs(database, "observe")
    await crowded.jobs.add_many([timed("every 1h")] * 8)
    with capture_logs() as lines:
        ring = await Placer(database).ring()
    [line] = [line for line in lines if line["event"] == log.MAP_REBUILT]
    score = round(measure_score(ring).score, 3)
    assert (line["job_count"], line["distribution_score"]) == (8, score)
    assert score < 0.9


async def test_several_placers_at_once_are_as_even_as_one(placed: PlacedJobs) -> None:
    several = [Jobs(placed.database, Registry(), Placer(placed.database)) for _ in range(4)]

    async def add(jobs: Jobs) -> None:
        for _ in range(15):
            await jobs.add(timed("every 1h"))

    await asyncio.gather(*map(add, several))
    assert set((await placed.true_ring()).minute) == {1}
    assert await placed.count() == 60


async def test_jobs_that_wait_for_a_busy_placer_are_placed_together(placed: PlacedJobs) -> None:
    made = await asyncio.gather(*(placed.jobs.add(timed("every 1h")) for _ in range(30)))
    for job in made:
        assert await placed.find(job) == job
    assert await placed.count() == 30


async def test_a_job_that_a_node_was_quicker_to_place_comes_back_with_that_place(
    placed: PlacedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = placed.placement.place

    async def too_late(uids: Collection[UUID]) -> dict[UUID, PlacedJob]:
        await Placer(placed.database).place_waiting()
        return await place(uids)

    monkeypatch.setattr(placed.placement, "place", too_late)
    job = await placed.make()
    assert await placed.find(job) == job
    assert (job.is_new, await placed.placed_at(job)) == (True, START)


async def test_a_process_that_was_idle_reads_the_changes_or_the_whole_map(
    placed: PlacedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = Placer(placed.database)
    await idle.ring()
    job = await placed.make()
    assert_same(await idle.ring(), await placed.placement.ring())
    monkeypatch.setattr(load_map, "KEPT_CHANGES", 1)
    await placed.jobs.pause(job.uid)
    for _ in range(3):
        await placed.make("every 2h")
    await load_map.prune_changes(placed.database)
    assert await placed.value("select count(*) from evenbeat.load_delta") == 1
    assert_same(await idle.ring(), await placed.placement.ring())
    assert await placed.count() == 3


async def test_a_database_that_was_put_back_is_read_anew(placed: PlacedJobs) -> None:
    for _ in range(3):
        await placed.make()
    async with placed.database.connection() as connection:
        await connection.execute(EMPTY)
    assert (await placed.placement.ring()).job_count == 0
    again = await open_placed_jobs(placed.database)
    await again.make()
    assert (await placed.placement.ring()).job_count == 1


async def test_the_ring_goes_on_with_the_time(placed: PlacedJobs, clock: Clock) -> None:
    await placed.make("daily 06:00")
    before = await placed.true_ring()
    await clock.advance(hours=3)
    ring = await placed.true_ring()
    assert (ring.start_at - before.start_at, ring.slot.sum()) == (3 * HOUR, 7)


async def test_a_job_added_in_a_callers_transaction_is_placed_by_a_node(placed: PlacedJobs) -> None:
    async with placed.database.connection() as connection, connection.transaction():
        job = await placed.jobs.add(timed("every 1h"), connection=connection)
        assert beat_of(job) == START + HOUR
    assert await placed.placement.place_waiting() == 1
    assert await placed.placed_at(job) == START
    assert START < beat_of(await placed.find(job)) <= START + HOUR
    assert await placed.count() == 1


async def test_a_job_that_another_transaction_holds_is_placed_later(placed: PlacedJobs) -> None:
    held, other = [await placed.add(timed("every 1h"), due_at=START + HOUR) for _ in range(2)]
    lock = "select 1 from evenbeat.pulse where id = $1 for update"
    async with placed.database.connection() as connection, connection.transaction():
        await connection.fetch(lock, held.id)
        await placed.placement.place_waiting()
        assert await placed.placed_at(other) == START
        assert (await placed.placement.ring()).job_count == 1
    await placed.placement.place_waiting()
    assert await placed.placed_at(held) == START
    assert await placed.count() == 2


async def test_observing_keeps_the_map_and_places_nothing(database: Database) -> None:
    placed = await open_placed_jobs(database, "observe")
    job = await placed.make()
    assert beat_of(job) == START + HOUR
    assert (await placed.placed_at(job), await placed.count()) == (None, 1)
    await placed.jobs.pause(job.uid)
    assert await placed.count() == 0


async def test_off_keeps_no_map_takes_no_lock_and_still_knows_the_load(database: Database) -> None:
    placed = await open_placed_jobs(database, "off")
    async with database.transaction() as session:
        await load_map.lock_load_map(session)
        job = await placed.make()
        await placed.jobs.pause(job.uid)
        job = await placed.jobs.resume(job.uid)
        assert await placed.placement.place_waiting() == 0
    assert beat_of(job) == START + HOUR
    assert await placed.fetch("select 1 from evenbeat.placement") == []
    ring = await placed.placement.ring()
    assert (ring.job_count, ring.slot.sum()) == (1, 168)


async def test_jobs_that_beat_before_balancing_was_switched_on_stay_where_they_are(
    database: Database, clock: Clock
) -> None:
    off = await open_placed_jobs(database, "off")
    beaten, new = await off.make(), await off.make("every 2h")
    await clock.advance(hours=1)
    await off.finish(beaten)
    await off.jobs.pause(new.uid)
    await off.jobs.resume(new.uid)
    placed = await open_placed_jobs(database)
    await placed.placement.place_waiting()
    assert phase_of(await placed.find(beaten)) == phase_of(beaten)
    assert await placed.placed_at(new) == clock.now
    assert await placed.count() == 2


async def test_a_job_that_ends_by_itself_is_found_and_leaves_the_map(
    placed: PlacedJobs, clock: Clock, settings: Settings
) -> None:
    job = await placed.make("every 1h", max_runs=1)
    await clock.set_to(beat_of(job))
    await placed.finish(job)
    assert (await placed.placement.ring()).job_count == 1
    await run_janitor(placed, settings)
    assert await placed.count() == 0


async def test_a_job_that_ended_and_was_taken_up_again_at_once_is_still_placed_anew(
    placed: PlacedJobs,
) -> None:
    job = await placed.make()
    await unplaced_jobs.mark_unplaced(placed.database, [job.id], anew=True)
    await unplaced_jobs.mark_ended(placed.database, [job.id])
    assert await placed.value("select beat_count from evenbeat.unplaced") == 0
    assert await placed.placement.place_waiting() == 1
    assert await placed.count() == 1


@pytest.mark.breaks_rules  # Its statistics are of runs that never were.
async def test_a_job_that_takes_longer_weighs_more(
    placed: PlacedJobs, clock: Clock, settings: Settings
) -> None:
    job, usual = await placed.make(), await placed.make()
    await placed.fetch(
        """
        insert into evenbeat.run_day (
            day, kind, group_key, job_id, completed, failed, lost, cancelled, skipped, retried,
            duration_ms, longest_ms, items_crawled, items_indexed
        )
        select '2030-01-01', 'echo', '', id, 4, 0, 0, 0, 0, 0, total, 0, 0, 0
        from unnest($1::bigint[], $2::bigint[]) as spent (id, total)
        """,
        [job.id, usual.id],
        [400_000, 4_100],
    )
    await run_janitor(placed, settings)
    costs = await placed.fetch("select job_id, cost_s from evenbeat.placement order by 1")
    assert [tuple(row) for row in costs] == [(job.id, 100), (usual.id, 1)]
    assert phase_of(await placed.find(job)) == phase_of(job)
    ring = await placed.placement.ring()
    assert ring.busy.sum() == 168 * 101


async def run_janitor(placed: PlacedJobs, settings: Settings) -> None:
    """Let the janitor check all jobs, and place those that it marks."""
    janitor = Janitor(placed.database, settings.model_copy(update={"balancing": "on"}))
    for _ in range(len(janitor._order)):
        assert await janitor.turn() < timedelta(minutes=1)
    await placed.placement.place_waiting()
