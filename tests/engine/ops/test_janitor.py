"""The janitor: one at a time over all nodes, in small pieces, through crashes, beside real work."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from evenbeat.config import Settings
from evenbeat.control.ops.housekeeping import Housekeeping
from evenbeat.core.runs.outcome import Done
from evenbeat.engine.ops.janitor import Janitor
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import chores
from tests.conftest import START
from tests.engine.node_runner import Does, Gate, NodeRunner
from tests.support.databases import Clock
from tests.support.run_histories import DAY, Ran, RunHistory, count, janitor_of, tidy, work
from tests.support.waiting import eventually

MANY = 3000
DONE = Does(Done())


@pytest.fixture
def run_history(database: Database) -> RunHistory:
    return RunHistory(database)


async def old_runs(run_history: RunHistory, number: int = MANY, jobs: int = 30) -> None:
    """As many runs, all of them old enough to go but for the hundred newest of each job."""
    ids = [await run_history.job(START - 99 * DAY) for _ in range(jobs)]
    each = number // jobs
    minutes = timedelta(minutes=1)
    await run_history.write(
        Ran(job_id, n, START - 90 * DAY + (n * jobs + place) * minutes)
        for place, job_id in enumerate(ids)
        for n in range(1, each + 1)
    )


async def counted(run_history: RunHistory) -> int:
    return await run_history.value(
        "select coalesce(sum(completed), 0)::bigint from evenbeat.run_day"
    )


@pytest.mark.removes_history
async def test_two_janitors_at_once_remove_and_count_everything_once(
    run_history: RunHistory, settings: Settings, database: Database
) -> None:
    await old_runs(run_history)
    janitors = [janitor_of(database, settings, keep_runs=10) for _ in range(4)]

    async def is_done() -> bool:
        await chores.make_all_due(database)
        await asyncio.gather(*map(work, janitors))
        return len(await run_history.kept()) == 300

    await eventually(is_done, "everything removed")
    assert await counted(run_history) == MANY
    removed = {chore.name: chore.total_count for chore in await chores.list_chores(database)}
    assert (removed["count"], removed["runs"]) == (MANY, MANY - 300)


@pytest.mark.removes_history
async def test_a_janitor_that_dies_in_the_middle_of_a_piece_leaves_the_rest_to_the_next(
    run_history: RunHistory, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await old_runs(run_history)
    dying = janitor_of(database, settings, keep_runs=10)

    async def die(*_: object, **__: object) -> None:
        raise asyncpg.ConnectionDoesNotExistError("the machine is gone")

    deaths = 0
    for _ in range(40):
        with monkeypatch.context() as fault:
            fault.setattr(chores, "record_piece", die)
            before = (await run_history.kept(), await counted(run_history))
            await chores.make_all_due(database)
            with pytest.raises(asyncpg.ConnectionDoesNotExistError):
                await dying.turn()
            deaths += 1
            assert (await run_history.kept(), await counted(run_history)) == before
        # One piece gets through between two deaths.
        await dying.turn()
    assert deaths == 40
    await tidy(janitor_of(database, settings, keep_runs=10), database)
    assert len(await run_history.kept()) == 300
    assert await counted(run_history) == MANY


@pytest.mark.removes_history
async def test_a_chore_in_other_hands_is_not_waited_for(
    run_history: RunHistory, settings: Settings, database: Database
) -> None:
    await old_runs(run_history)
    janitor = janitor_of(database, settings, keep_runs=10)
    await count(janitor, database)
    async with database.connection() as other, other.transaction():
        await other.execute("select from evenbeat.chore where name = 'runs' for update")
        await other.execute("update evenbeat.chore set next_at = now() where name = 'jobs'")
        before = await run_history.value("select last_at from evenbeat.chore where name = 'runs'")
        assert await janitor.turn() >= timedelta(0)
        assert (
            await run_history.value("select last_at from evenbeat.chore where name = 'runs'")
            == before
        )
    await tidy(janitor, database)
    assert len(await run_history.kept()) == 300


@pytest.mark.removes_history
async def test_all_janitors_together_rest_between_pieces(
    run_history: RunHistory, settings: Settings, database: Database
) -> None:
    await old_runs(run_history)
    await count(janitor_of(database, settings, keep_runs=3000), database)
    only_runs = """
        update evenbeat.chore
        set cursor = case when name = 'runs' then 0 else cursor end,
            next_at = case when name = 'runs' then now() else now() + interval '1 hour' end
    """
    await run_history.fetch(only_runs)
    resting = [
        janitor_of(database, settings, keep_runs=10, housekeeping_share=0.01) for _ in range(3)
    ]
    pauses = [await each.turn() for each in resting]
    # The first does a piece, and the pause after it holds for the others.
    assert all(pause > timedelta(milliseconds=100) for pause in pauses)
    done = "select round_count + last_count from evenbeat.chore where name = 'runs'"
    assert 0 < await run_history.value(done) <= 100


async def test_a_run_under_way_is_counted_when_it_closes(
    node_runner: NodeRunner, run_history: RunHistory, clock: Clock
) -> None:
    gate = Gate()
    async with node_runner.node(Does(gate), Does(Done(), kind="quick")):
        long = await node_runner.add("every 1h")
        await clock.advance(hours=1)
        await node_runner.started(long)
        quick = await node_runner.add("every 1m", kind="quick")
        await clock.advance(minutes=1)
        await node_runner.closed(quick)
        janitor = janitor_of(node_runner.database, node_runner.settings)
        await count(janitor, node_runner.database)
        assert await counted(run_history) == 1
        assert await run_history.value("select count(*) from evenbeat.late_run") == 1
        gate.open.set()
        await node_runner.closed(long)
    await count(janitor, node_runner.database)
    assert await counted(run_history) == 2
    assert await run_history.value("select count(*) from evenbeat.late_run") == 0


async def test_a_claim_that_is_not_committed_is_not_passed_by(
    run_history: RunHistory, settings: Settings, database: Database
) -> None:
    """Its id was drawn before the goal was set: had counting gone on, its run would be lost."""
    job = await run_history.job(START - DAY)
    janitor = janitor_of(database, settings)
    await count(janitor, database)
    async with database.connection() as other, other.transaction():
        await other.execute("select from evenbeat.pulse for update")
        drawn = await other.fetchval("select nextval('evenbeat.run_id')")
        for _ in range(4):
            await chores.make_all_due(database)
            await work(janitor)
        assert await run_history.cursor("count") < drawn
        await other.execute(
            "insert into evenbeat.run "
            "(id, job_id, number, state, cause, attempt, started_at, finished_at) "
            "values ($1, $2, 1, 'c', 'm', 1, $3, $3)",
            *(drawn, job, START),
        )
        await other.execute("update evenbeat.pulse set run_number = 1, completed_count = 1")
    await count(janitor, database)
    assert await counted(run_history) == 1


async def test_ids_of_claims_that_came_to_nothing_are_forgotten(
    run_history: RunHistory, settings: Settings, database: Database
) -> None:
    job = await run_history.job(START - DAY)
    await run_history.write([Ran(job, 1, START - DAY)])
    await run_history.fetch("select nextval('evenbeat.run_id') from generate_series(1, 20)")
    await run_history.write([Ran(job, 2, START)])
    await run_history.fetch("update evenbeat.pulse set completed_count = 2")
    janitor = janitor_of(database, settings)
    await count(janitor, database)
    await chores.make_all_due(database)
    await work(janitor)
    assert await run_history.value("select count(*) from evenbeat.late_run") == 0
    assert await counted(run_history) == 2


async def test_a_sequence_that_was_set_ahead_is_passed_in_one_step(
    run_history: RunHistory, settings: Settings, database: Database
) -> None:
    job = await run_history.job(START - DAY)
    await run_history.fetch(
        "select setval('evenbeat.run_id', nextval('evenbeat.run_id') + 1000000000)"
    )
    await run_history.write([Ran(job, 1, START - DAY)])
    await count(janitor_of(database, settings), database)
    assert await counted(run_history) == 1


async def test_a_node_keeps_house_and_tells_what_it_did(
    node_runner: NodeRunner, run_history: RunHistory, database: Database
) -> None:
    job = await run_history.job(START - 9 * DAY, schedule={"now": "true"}, state="c")
    housekeeping = Housekeeping(database)
    assert await housekeeping.status() == []
    async with node_runner.node(DONE):

        async def is_removed() -> bool:
            return not await run_history.fetch("select from evenbeat.job where id = $1", job)

        await eventually(is_removed, "the finished job removed")
    status = {chore.name: chore for chore in await housekeeping.status()}
    assert status["jobs"].last_count == status["jobs"].total_count == 1
    assert status["jobs"].last_at == START
    assert status["jobs"].last_took > timedelta(0)


async def test_housekeeping_can_be_asked_for(
    run_history: RunHistory, settings: Settings, database: Database
) -> None:
    janitor = Janitor(database, settings)
    while await janitor.turn() < timedelta(seconds=1):
        continue
    await run_history.job(START - 9 * DAY, schedule={"now": "true"}, state="c")
    await Housekeeping(database).run_now()
    while await janitor.turn() < timedelta(seconds=1):
        continue
    assert await run_history.fetch("select from evenbeat.job") == []


async def test_a_chore_that_fails_does_not_keep_the_others_from_theirs(
    run_history: RunHistory, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_history.job(START - 9 * DAY, schedule={"now": "true"}, state="c")

    async def fail(*_: object, **__: object) -> None:
        raise ValueError("out of order")

    monkeypatch.setattr("evenbeat.store.ops.retention.count_runs_into_days", fail)
    janitor, failures = janitor_of(database, settings), 0
    for _ in range(20):
        try:
            await janitor.turn()
        except ValueError:
            failures += 1
    assert failures > 1
    assert await run_history.fetch("select from evenbeat.job") == []
