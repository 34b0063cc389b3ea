"""Claiming: what is due, in turn, once, and only for the living."""

import asyncio
import re
import secrets
from collections import Counter
from datetime import datetime, timedelta

import pytest

from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Cause, State, UnrunnableClaim
from evenbeat.store.database.pool import order_values
from evenbeat.store.jobs.jobs import DefinitionCache, UnreadableDefinition
from evenbeat.store.ops import nodes
from evenbeat.store.runs import completions, leases
from evenbeat.store.runs.leases import NextDue
from tests.conftest import START
from tests.store.given import HOUR, LEASE, MINUTE, JobStore, definition
from tests.support.databases import Clock

SECOND = timedelta(seconds=1)
TEN_SECONDS = timedelta(seconds=10)


async def test_nothing_is_claimed_before_its_time(job_store: JobStore, clock: Clock) -> None:
    await job_store.add(due_at=START + MINUTE)
    assert await job_store.claim() == []
    await clock.advance(seconds=59.999999)
    assert await job_store.claim() == []
    await clock.advance(seconds=0.000001)
    assert len(await job_store.claim()) == 1


async def test_a_claim_brings_everything_a_node_has_to_know(
    job_store: JobStore, clock: Clock
) -> None:
    job = await job_store.add(definition(payload={"a": 1}, policy={"max_attempts": 5}))
    await clock.advance(seconds=3)
    claimed = await job_store.claim_one()
    assert (claimed.id, claimed.uid, claimed.definition) == (job.id, job.uid, job.definition)
    assert claimed.next_beat_at == START
    run = claimed.run
    assert (run.number, run.attempt, run.cause) == (1, 1, Cause.SCHEDULE)
    assert (run.beat_at, run.started_at) == (START, clock.now)


@pytest.mark.parametrize("group", [None, Group("site")])
async def test_each_column_of_a_claim_is_taken_for_what_it_is(
    job_store: JobStore, clock: Clock, group: Group | None
) -> None:
    """Of both claims: that of jobs with a group is a statement of its own."""
    await job_store.add(definition(group=group))
    await job_store.fetch(
        "update evenbeat.pulse set plan_version = 11, def_version = 12, beat_count = 13,"
        " failure_streak = 14, lost_streak = 2, run_number = 16"
    )
    # So that no two instants are the same.
    await clock.advance(seconds=3)
    [claimed] = await (job_store.claim_grouped() if group else job_store.claim())
    [row] = await job_store.fetch("select * from evenbeat.pulse")
    run = claimed.run
    assert (run.id, run.token, run.number) == (row["run_id"], row["token"], 17)
    assert (claimed.plan_version, claimed.runs_so_far, claimed.lane_id) == (11, 13, row["lane_id"])
    assert (claimed.failure_streak, claimed.lost_streak) == (14, 2)
    # Where to go on looking is told of jobs without a group alone.
    assert claimed.turn_at == (None if group else row["turn_at"])
    assert await leases.list_node_runs(job_store.database, job_store.node_id) == [claimed]


@pytest.mark.parametrize("beat_at", [START, START - MINUTE, None])
async def test_a_retry_is_of_its_own_beat_wherever_the_next_one_is(
    job_store: JobStore, beat_at: datetime | None
) -> None:
    await job_store.add()
    await job_store.fetch("update evenbeat.pulse set retry_at = $1, beat_at = $2", START, beat_at)
    claimed = await job_store.claim_one()
    assert (claimed.run.cause, claimed.run.beat_at) == (Cause.RETRY, beat_at)
    assert claimed.next_beat_at == START


async def test_the_run_in_hand_is_in_the_history_from_the_claim_on(job_store: JobStore) -> None:
    job = await job_store.add()
    claimed = await job_store.claim_one()
    [run] = await job_store.runs(job)
    assert (run["id"], run["number"], run["attempt"]) == (claimed.run.id, 1, 1)
    assert (run["state"], run["cause"], run["beat_at"]) == (b"r", b"s", START)
    assert (run["node_id"], run["started_at"], run["finished_at"]) == (
        job_store.node_id,
        START,
        None,
    )
    seen = await job_store.find(job)
    assert (seen.pulse.state, seen.pulse.due_at) == (State.RUNNING, None)


async def test_what_is_claimed_is_not_claimed_again(job_store: JobStore) -> None:
    await job_store.add()
    assert len(await job_store.claim()) == 1
    assert await job_store.claim() == []


async def test_no_more_is_claimed_than_there_are_places(job_store: JobStore) -> None:
    for _ in range(5):
        await job_store.add()
    assert len(await job_store.claim(2)) == 2
    assert len(await job_store.claim(2)) == 2
    assert len(await job_store.claim(2)) == 1


async def test_only_served_kinds_are_claimed(job_store: JobStore) -> None:
    await job_store.add(definition(kind="crawl"))
    assert await job_store.claim(kind="echo") == []
    assert len(await job_store.claim(kind="crawl")) == 1


async def test_each_kind_has_places_of_its_own(job_store: JobStore) -> None:
    for kind in ("crawl", "echo"):
        for _ in range(3):
            await job_store.add(definition(kind=kind))
    places = {job_store.lanes["crawl"]: 1, job_store.lanes["echo"]: 2}
    held = await job_store.take(leases.claim_due, places)
    kinds = Counter(each.definition.kind for each in held)
    assert kinds == {"crawl": 1, "echo": 2}


async def test_jobs_are_claimed_in_turn_and_priority_counts_ten_seconds_a_point(
    job_store: JobStore, clock: Clock
) -> None:
    late = await job_store.add(due_at=START)
    raised = await job_store.add(definition(priority=2), due_at=START + 15 * SECOND)
    later = await job_store.add(due_at=START + 5 * SECOND)
    high = await job_store.add(definition(priority=100), due_at=START + HOUR)
    await clock.advance(minutes=30)
    order = [(await job_store.claim_one()).id for _ in range(3)]
    assert order == [raised.id, late.id, later.id]
    assert await job_store.claim() == [], "priority brings no beat forward"
    await clock.advance(minutes=30)
    assert (await job_store.claim_one()).id == high.id


async def test_sessions_that_claim_at_once_never_get_the_same_job(job_store: JobStore) -> None:
    for _ in range(60):
        await job_store.add()

    async def claim_all() -> list[int]:
        taken: list[int] = []
        while claimed := await job_store.claim(7):
            taken += [each.id for each in claimed]
        return taken

    first, second, third = await asyncio.gather(claim_all(), claim_all(), claim_all())
    assert len({*first, *second, *third}) == len(first + second + third) == 60


async def test_a_row_that_somebody_has_locked_is_passed_over(job_store: JobStore) -> None:
    locked, free = await job_store.add(), await job_store.add()
    async with job_store.database.connection() as connection, connection.transaction():
        query = "select from evenbeat.pulse where id = $1 for update"
        await connection.execute(query, locked.id)
        assert [each.id for each in await job_store.claim()] == [free.id]
    assert [each.id for each in await job_store.claim()] == [locked.id]


async def test_a_dead_node_claims_nothing(job_store: JobStore) -> None:
    await job_store.add()
    await nodes.leave(job_store.database, job_store.node_id)
    assert await job_store.claim() == []


async def test_a_node_whose_lease_has_lapsed_claims_nothing_until_it_is_renewed(
    job_store: JobStore,
) -> None:
    await job_store.add()
    await job_store.fetch("update evenbeat.node set alive_until = statement_timestamp()")
    assert await job_store.claim() == []
    assert await nodes.renew(job_store.database, job_store.node_id, LEASE)
    assert len(await job_store.claim()) == 1


async def test_a_claim_writes_no_index(job_store: JobStore) -> None:
    """One HOT update a job: an index that mentions what the claim writes would end that."""
    for _ in range(50):
        await job_store.add()
    text = leases.SQL["claim_due"].text("set")
    given = {
        "node_id": job_store.node_id,
        "token": secrets.randbits(62),
        "lane_ids": [job_store.lanes["echo"]],
        "places": [50],
        "since": [],
    }
    counters = """
        select pg_stat_get_xact_tuples_updated('evenbeat.pulse'::regclass),
            pg_stat_get_xact_tuples_hot_updated('evenbeat.pulse'::regclass)
    """
    async with job_store.database.connection() as connection, connection.transaction():
        # Of this session alone, and not from zero: it may have updated before.
        before = await connection.fetchrow(counters)
        values = order_values(leases.SQL["claim_due"], given)
        assert len(await connection.fetch(text, *values)) == 50
        after = await connection.fetchrow(counters)
    assert (after[0] - before[0], after[1] - before[1]) == (50, 50)


async def test_a_beat_that_is_more_than_an_hour_late_is_a_catch_up(
    job_store: JobStore, clock: Clock
) -> None:
    await job_store.add()
    await clock.advance(hours=1)
    assert (await job_store.claim_one()).run.cause is Cause.SCHEDULE
    await job_store.add(due_at=START)
    await clock.advance(seconds=1)
    assert (await job_store.claim_one()).run.cause is Cause.CATCHUP


async def test_a_manual_run_goes_first_and_has_no_beat(job_store: JobStore) -> None:
    job = await job_store.add(due_at=START + HOUR)
    await job_store.fetch("update evenbeat.pulse set manual_at = $1", START)
    claimed = await job_store.claim_one()
    assert (claimed.run.cause, claimed.run.beat_at, claimed.run.attempt) == (Cause.MANUAL, None, 1)
    assert claimed.next_beat_at == START + HOUR
    [run] = await job_store.runs(job)
    assert (run["cause"], run["beat_at"], run["attempt"]) == (b"m", None, 1)


async def test_a_paused_job_is_claimed_for_a_manual_run_only(job_store: JobStore) -> None:
    await job_store.add()
    await job_store.fetch("update evenbeat.pulse set state = 'z'")
    assert await job_store.claim() == []
    await job_store.fetch("update evenbeat.pulse set manual_at = $1", START)
    assert (await job_store.claim_one()).run.cause is Cause.MANUAL


async def test_a_definition_that_cannot_be_read_does_not_hide_the_others(
    job_store: JobStore,
) -> None:
    bad, good = await job_store.add(), await job_store.add()
    await job_store.fetch(
        "update evenbeat.job set timetable = '{\"schedule\": 7}' where id = $1", bad.id
    )
    orphan = await job_store.add()
    await job_store.fetch("delete from evenbeat.job where id = $1", orphan.id)
    held = await leases.claim_due(
        job_store.database,
        job_store.node_id,
        token=7,
        places={job_store.lanes["echo"]: 10},
        definitions=job_store.definitions,
    )
    broken = {each.id: each for each in held if isinstance(each, UnrunnableClaim)}
    assert [each.id for each in held if not isinstance(each, UnrunnableClaim)] == [good.id]
    assert "the definition cannot be read" in broken[bad.id].error
    assert (broken[bad.id].uid, broken[bad.id].run.token) == (bad.uid, 7)
    assert "no job" in broken[orphan.id].error


async def test_a_policy_of_a_newer_version_makes_a_job_unreadable(job_store: JobStore) -> None:
    job = await job_store.add()
    await job_store.fetch('update evenbeat.job set policy = \'{"mood": "sunny"}\'')
    [read] = (
        await DefinitionCache().load_definitions(job_store.database, {job.id: (1, 1)})
    ).values()
    assert isinstance(read, UnreadableDefinition)
    assert "mood" in read.error


async def next_due(job_store: JobStore) -> NextDue:
    return await leases.find_next_due(
        job_store.database, list(job_store.lanes.values()), horizon=TEN_SECONDS
    )


async def until_due(job_store: JobStore) -> timedelta | None:
    return (await next_due(job_store)).ungrouped_in


async def test_the_wait_until_something_is_due_is_told_as_a_duration(
    job_store: JobStore, clock: Clock
) -> None:
    assert await until_due(job_store) is None
    await job_store.add(due_at=START + 8 * SECOND)
    await job_store.add(definition(kind="crawl"), due_at=START + 7 * SECOND)
    assert await until_due(job_store) == 7 * SECOND
    await clock.advance(seconds=9)
    wait = await until_due(job_store)
    assert wait is not None
    assert wait <= timedelta(0)


async def test_a_high_priority_job_far_ahead_does_not_hide_a_sooner_one(
    job_store: JobStore,
) -> None:
    await job_store.add(definition(priority=100), due_at=START + 500 * SECOND)
    await job_store.add(definition(priority=100), due_at=START + 9 * SECOND)
    await job_store.add(definition(priority=0), due_at=START + 4 * SECOND)
    assert await until_due(job_store) == 4 * SECOND


async def test_what_lies_behind_the_horizon_or_is_running_does_not_count(
    job_store: JobStore,
) -> None:
    await job_store.add(due_at=START + 11 * SECOND)
    await job_store.add()
    await job_store.claim_one()
    assert await until_due(job_store) is None


async def test_turns_before_the_one_named_are_not_looked_at(job_store: JobStore) -> None:
    early, late = await job_store.add(), await job_store.add()
    await job_store.fetch(
        "update evenbeat.pulse set next_beat_at = next_beat_at - interval '1 minute' where id = $1",
        early.id,
    )
    lane = job_store.lanes["echo"]
    turn_at = await job_store.value("select turn_at from evenbeat.pulse where id = $1", late.id)
    since = {lane: turn_at}
    due = await leases.find_next_due(job_store.database, [lane], horizon=TEN_SECONDS, since=since)
    assert due.waits() == [timedelta(0)]
    held = await leases.claim_due(
        job_store.database,
        job_store.node_id,
        token=1,
        places={lane: 10},
        definitions=DefinitionCache(),
        since=since,
    )
    assert [(each.id, each.turn_at) for each in held] == [(late.id, turn_at)]
    due = await leases.find_next_due(job_store.database, [lane], horizon=TEN_SECONDS, since=since)
    assert due.ungrouped_in is None
    assert (
        await leases.find_next_due(job_store.database, [lane], horizon=TEN_SECONDS)
    ).waits() != []


@pytest.mark.parametrize("name", ["claim_due", "claim_grouped"])
async def test_a_claim_writes_a_column_that_generated_ones_are_made_of(
    job_store: JobStore, name: str
) -> None:
    made_of = await job_store.fetch(
        "select column_name from information_schema.column_column_usage"
        " where table_schema = 'evenbeat' and table_name = 'pulse'"
    )
    statements = leases.SQL | completions.SQL
    _, _, written = statements[name].template.rpartition("update evenbeat.pulse as p")
    columns = set(re.findall(r"^ *(?:set )?(\w+) = ", written, re.MULTILINE))
    assert columns & {row["column_name"] for row in made_of}, "each row costs four times as much"
