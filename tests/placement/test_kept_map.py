"""The map is in the database: who reads it, keeps it, or comes back to it sees the same."""

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
from tests.placement.placed_jobs import HOUR, Yard, assert_same, beat_of, open_yard, phase_of, timed
from tests.support.databases import EMPTY, Clock

ROWS = """
    select job.id, job.timetable, job.version, pulse.next_beat_at, pulse.plan_version, placement
    from evenbeat.job
    join evenbeat.pulse using (id)
    left join evenbeat.placement on placement.job_id = job.id
    order by 1
"""


async def test_a_restart_changes_nothing(yard: Yard) -> None:
    await yard.jobs.add_many([timed("every 1h"), timed("every 1d"), timed("daily 06:00")] * 5)
    before = await yard.fetch(ROWS)
    again = await open_yard(yard.database)
    assert await again.placement.place_waiting() == 0
    assert await yard.fetch(ROWS) == before
    assert_same(await yard.placement.ring(), await again.placement.ring())


async def test_who_reads_the_map_tells_how_even_it_is(database: Database) -> None:
    crowded = await open_yard(database, "observe")
    await crowded.jobs.add_many([timed("every 1h")] * 8)
    with capture_logs() as lines:
        ring = await Placer(database).ring()
    [line] = [line for line in lines if line["event"] == log.MAP_REBUILT]
    score = round(measure_score(ring).score, 3)
    assert (line["job_count"], line["distribution_score"]) == (8, score)
    assert score < 0.9


async def test_several_who_place_at_once_are_as_even_as_one(yard: Yard) -> None:
    several = [Jobs(yard.database, Registry(), Placer(yard.database)) for _ in range(4)]

    async def add(jobs: Jobs) -> None:
        for _ in range(15):
            await jobs.add(timed("every 1h"))

    await asyncio.gather(*map(add, several))
    assert set((await yard.true_ring()).minute) == {1}
    assert await yard.count() == 60


async def test_those_who_ask_while_somebody_places_are_placed_together(yard: Yard) -> None:
    made = await asyncio.gather(*(yard.jobs.add(timed("every 1h")) for _ in range(30)))
    for job in made:
        assert await yard.look(job) == job
    assert await yard.count() == 30


async def test_a_job_that_a_node_was_quicker_to_place_comes_back_with_that_place(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = yard.placement.place

    async def too_late(uids: Collection[UUID]) -> dict[UUID, PlacedJob]:
        await Placer(yard.database).place_waiting()
        return await ask(uids)

    monkeypatch.setattr(yard.placement, "place", too_late)
    job = await yard.make()
    assert await yard.look(job) == job
    assert (job.is_new, await yard.placed_at(job)) == (True, START)


async def test_who_was_away_reads_what_has_changed_or_the_whole_map(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Placer(yard.database)
    await away.ring()
    job = await yard.make()
    assert_same(await away.ring(), await yard.placement.ring())
    monkeypatch.setattr(load_map, "KEPT_CHANGES", 1)
    await yard.jobs.pause(job.uid)
    for _ in range(3):
        await yard.make("every 2h")
    await load_map.prune_changes(yard.database)
    assert await yard.value("select count(*) from evenbeat.load_delta") == 1
    assert_same(await away.ring(), await yard.placement.ring())
    assert await yard.count() == 3


async def test_a_database_that_was_put_back_is_read_anew(yard: Yard) -> None:
    for _ in range(3):
        await yard.make()
    async with yard.database.connection() as connection:
        await connection.execute(EMPTY)
    assert (await yard.placement.ring()).job_count == 0
    again = await open_yard(yard.database)
    await again.make()
    assert (await yard.placement.ring()).job_count == 1


async def test_the_ring_goes_on_with_the_time(yard: Yard, clock: Clock) -> None:
    await yard.make("daily 06:00")
    before = await yard.true_ring()
    await clock.advance(hours=3)
    ring = await yard.true_ring()
    assert (ring.start_at - before.start_at, ring.slot.sum()) == (3 * HOUR, 7)


async def test_what_was_added_in_a_callers_transaction_is_placed_by_a_node(yard: Yard) -> None:
    async with yard.database.connection() as connection, connection.transaction():
        job = await yard.jobs.add(timed("every 1h"), connection=connection)
        assert beat_of(job) == START + HOUR
    assert await yard.placement.place_waiting() == 1
    assert await yard.placed_at(job) == START
    assert START < beat_of(await yard.look(job)) <= START + HOUR
    assert await yard.count() == 1


async def test_what_somebody_holds_is_placed_later(yard: Yard) -> None:
    held, other = [await yard.add(timed("every 1h"), due_at=START + HOUR) for _ in range(2)]
    lock = "select 1 from evenbeat.pulse where id = $1 for update"
    async with yard.database.connection() as connection, connection.transaction():
        await connection.fetch(lock, held.id)
        await yard.placement.place_waiting()
        assert await yard.placed_at(other) == START
        assert (await yard.placement.ring()).job_count == 1
    await yard.placement.place_waiting()
    assert await yard.placed_at(held) == START
    assert await yard.count() == 2


async def test_observing_keeps_the_map_and_places_nothing(database: Database) -> None:
    yard = await open_yard(database, "observe")
    job = await yard.make()
    assert beat_of(job) == START + HOUR
    assert (await yard.placed_at(job), await yard.count()) == (None, 1)
    await yard.jobs.pause(job.uid)
    assert await yard.count() == 0


async def test_off_keeps_no_map_takes_no_lock_and_still_tells_the_load(database: Database) -> None:
    yard = await open_yard(database, "off")
    async with database.transaction() as session:
        await load_map.lock_load_map(session)
        job = await yard.make()
        await yard.jobs.pause(job.uid)
        job = await yard.jobs.resume(job.uid)
        assert await yard.placement.place_waiting() == 0
    assert beat_of(job) == START + HOUR
    assert await yard.fetch("select 1 from evenbeat.placement") == []
    ring = await yard.placement.ring()
    assert (ring.job_count, ring.slot.sum()) == (1, 168)


async def test_jobs_that_beat_before_balancing_was_switched_on_stay_where_they_are(
    database: Database, clock: Clock
) -> None:
    off = await open_yard(database, "off")
    beaten, new = await off.make(), await off.make("every 2h")
    await clock.advance(hours=1)
    await off.finish(beaten)
    await off.jobs.pause(new.uid)
    await off.jobs.resume(new.uid)
    yard = await open_yard(database)
    await yard.placement.place_waiting()
    assert phase_of(await yard.look(beaten)) == phase_of(beaten)
    assert await yard.placed_at(new) == clock.now
    assert await yard.count() == 2


async def test_what_ends_by_itself_is_found_and_leaves_the_map(
    yard: Yard, clock: Clock, settings: Settings
) -> None:
    job = await yard.make("every 1h", max_runs=1)
    await clock.set_to(beat_of(job))
    await yard.finish(job)
    assert (await yard.placement.ring()).job_count == 1
    await tidied(yard, settings)
    assert await yard.count() == 0


async def test_a_job_that_ended_and_was_taken_up_again_at_once_is_still_placed_anew(
    yard: Yard,
) -> None:
    job = await yard.make()
    await unplaced_jobs.mark_unplaced(yard.database, [job.id], anew=True)
    await unplaced_jobs.mark_ended(yard.database, [job.id])
    assert await yard.value("select beat_count from evenbeat.unplaced") == 0
    assert await yard.placement.place_waiting() == 1
    assert await yard.count() == 1


@pytest.mark.breaks_rules  # Its statistics are of runs that never were.
async def test_a_job_that_takes_longer_weighs_more(
    yard: Yard, clock: Clock, settings: Settings
) -> None:
    job, usual = await yard.make(), await yard.make()
    await yard.fetch(
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
    await tidied(yard, settings)
    costs = await yard.fetch("select job_id, cost_s from evenbeat.placement order by 1")
    assert [tuple(row) for row in costs] == [(job.id, 100), (usual.id, 1)]
    assert phase_of(await yard.look(job)) == phase_of(job)
    ring = await yard.placement.ring()
    assert ring.busy.sum() == 168 * 101


async def tidied(yard: Yard, settings: Settings) -> None:
    """The janitor has looked at all jobs, and the planner at what it found."""
    janitor = Janitor(yard.database, settings.model_copy(update={"balancing": "on"}))
    for _ in range(len(janitor._order)):
        assert await janitor.turn() < timedelta(minutes=1)
    await yard.placement.place_waiting()
