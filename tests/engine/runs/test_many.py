"""Many jobs, few places, and a database whose connections break."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Definition, RunState, State
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.handlers.echo import Echo
from evenbeat.store.database import clock as clocks
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import groups, jobs
from evenbeat.store.jobs.job_inserts import new_job_uid
from evenbeat.store.ops import nodes
from tests.conftest import START
from tests.engine.node_runner import Does, NodeRunner
from tests.store.given import insert
from tests.support.databases import Clock
from tests.support.waiting import eventually

MANY = 2000
TEN_SECONDS = timedelta(seconds=10)
# As many more jobs like the only one there is.
MULTIPLY = """
    with born as (
        insert into evenbeat.job (
            uid, kind, payload, timetable, policy, labels, created_at, updated_at
        )
        select gen_random_uuid(), kind, payload, timetable, policy, labels, created_at, updated_at
        from evenbeat.job, generate_series(1, $1::integer)
        returning id
    ),
    unplaced as (insert into evenbeat.unplaced (job_id) select id from born)
    insert into evenbeat.pulse (id, lane_id, state, state_at, next_beat_at)
    select born.id, pulse.lane_id, pulse.state, pulse.state_at, pulse.next_beat_at
    from born, evenbeat.pulse
"""


async def add_many(
    database: Database, count: int, group: Group | None = None, payload: Any = None
) -> None:
    await nodes.open_lanes(database, ["work"])
    planned = Timetable(parse_schedule("now")).planned_at(START)
    written = Definition("work", planned, payload=payload, group=group)
    found = await groups.ensure_group(database, group.key, group) if group else None
    async with database.transaction() as session:
        for _ in range(count):
            await insert(
                session,
                written,
                uid=new_job_uid(START),
                state=State.PENDING,
                first_beat=START,
                group_id=found and found.id,
            )
    await clocks.wake(database)


async def completed(node_runner: NodeRunner) -> int:
    return await node_runner.value("select count(*) from evenbeat.run where state = 'c'")


async def test_many_jobs_are_done_exactly_once_by_two_nodes(node_runner: NodeRunner) -> None:
    handled: Counter[Any] = Counter()

    def act(context: RunContext) -> Done:
        handled[context.job_uid] += 1
        return Done()

    await add_many(node_runner.database, MANY)
    async with node_runner.node(Does(act)), node_runner.node(Does(act)):
        await eventually(lambda: is_done(node_runner, MANY), f"{MANY} completed runs")
    assert len(handled) == MANY
    assert set(handled.values()) == {1}
    assert await node_runner.value("select count(*) from evenbeat.run") == MANY


async def is_done(node_runner: NodeRunner, count: int) -> bool:
    return await completed(node_runner) >= count


async def test_a_node_never_runs_more_at_once_than_it_may(node_runner: NodeRunner) -> None:
    at_once, most = 0, 0

    async def act(context: RunContext) -> Done:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        for _ in range(5):
            await asyncio.sleep(0)
        at_once -= 1
        return Done()

    await add_many(node_runner.database, 60)
    async with node_runner.node(Does(act), concurrency=3):
        await eventually(lambda: is_done(node_runner, 60), "60 completed runs")
    assert most == 3


async def test_no_kind_starves_beside_a_busy_one(node_runner: NodeRunner) -> None:
    order: list[str] = []

    def act(context: RunContext) -> Done:
        order.append(context.kind)
        return Done()

    await add_many(node_runner.database, 100)
    await node_runner.add(kind="rare")
    async with node_runner.node(Does(act), Does(act, kind="rare"), concurrency=4):
        await eventually(lambda: is_done(node_runner, 101), "101 completed runs")
    assert "rare" in order[:10]


async def test_after_a_day_without_nodes_ten_thousand_jobs_are_made_up_for(
    node_runner: NodeRunner, clock: Clock
) -> None:
    await node_runner.add("every 1h", kind="echo")
    await node_runner.fetch(MULTIPLY, 9_999)
    await node_runner.fetch("update evenbeat.pulse set next_beat_at = $1", START)
    await clock.advance(days=1, minutes=5)
    async with node_runner.node(Echo()):
        await eventually(lambda: is_done(node_runner, 10_000), "10,000 completed runs", patience=60)
    counted = await node_runner.fetch(
        "select state, cause, count(*), count(distinct job_id), sum(skipped_count)"
        " from evenbeat.run group by 1, 2 order by 1"
    )
    assert [tuple(row) for row in counted] == [
        (b"c", b"u", 10_000, 10_000, None),
        (b"k", b"s", 10_000, 10_000, 240_000),
    ]
    cursors = await node_runner.fetch("select distinct next_beat_at from evenbeat.pulse")
    assert [row["next_beat_at"] for row in cursors] == [START + timedelta(days=1, hours=1)]


async def test_priority_comes_first_and_waiting_makes_up_for_it(
    node_runner: NodeRunner, clock: Clock
) -> None:
    order: list[str] = []
    beats = {"patient": (0, 0), "urgent": (60, 7), "hardly urgent": (60, 5), "late": (59, 0)}
    for name, (second, priority) in beats.items():
        beat = (START + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")
        await node_runner.add(f"once {beat}", name=name, priority=priority)
    await clock.advance(minutes=2)
    act = Does(lambda context: order.append(context.job_name) or Done())
    async with node_runner.node(act, concurrency=1):
        await eventually(lambda: is_done(node_runner, 4), "4 completed runs")
    assert order == ["urgent", "patient", "hardly urgent", "late"]


@contextlib.asynccontextmanager
async def closed_in_the_end(database: Database) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await database.close()


async def test_a_node_goes_on_when_all_its_connections_are_broken(
    node_runner: NodeRunner, other_session: Any
) -> None:
    gate, reached = asyncio.Event(), asyncio.Event()

    async def act(context: RunContext) -> Done:
        reached.set()
        await gate.wait()
        return Done()

    fresh = NodeRunner(Database(node_runner.database.url, clock="set"), node_runner.settings)
    async with node_runner.node(Does(act)), closed_in_the_end(fresh.database):
        before = await node_runner.add()
        await reached.wait()
        await other_session.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'evenbeat' and datname = current_database()"
        )
        gate.set()
        await fresh.database.open()
        assert (await fresh.closed(before)).state is RunState.COMPLETED
        after = await fresh.add()
        assert (await fresh.closed(after)).state is RunState.COMPLETED
    assert await other_session.fetchval("select count(*) from evenbeat.node") == 1


async def test_a_new_job_wakes_a_node_that_would_have_slept_on(
    node_runner: NodeRunner, other_session: Any
) -> None:
    listens = "select true from pg_stat_activity where query ilike 'listen %evenbeat_wake%'"
    async with node_runner.node(Does(Done()), check_interval=TEN_SECONDS):
        await eventually(lambda: other_session.fetchval(listens), "a listening node")
        for _ in range(3):
            job = await node_runner.add()

            async def is_over(job_id: int = job.id) -> bool:
                query = "select count(*) from evenbeat.run where job_id = $1"
                return await node_runner.value(query, job_id) == 1

            await eventually(is_over, "a run without waiting for the next check", patience=8)


async def test_a_node_works_without_notifications(node_runner: NodeRunner) -> None:
    async with node_runner.node(Does(Done())):
        await node_runner.closed(await node_runner.add())
        uid = new_job_uid(START)
        written = Definition("work", Timetable(parse_schedule("now")).planned_at(START))
        await insert(node_runner.database, written, uid=uid, state=State.PENDING, first_beat=START)
        run = await node_runner.closed(await jobs.find_job(node_runner.database, uid))
    assert run.state is RunState.COMPLETED
