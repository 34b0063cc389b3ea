"""Plans and scores as they are kept: written once, forgotten in time."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from evenbeat.core.balance.model import Move, Score, SkippedJob, SkipReason
from evenbeat.core.balance.plan_records import PlanState, PlanSummary, RebalanceTotals, StoredPlan
from evenbeat.core.errors import NotFound
from evenbeat.core.ops.audit import Actor
from evenbeat.store.balance import rebalance_plans, scores
from evenbeat.store.database.pool import Database
from tests.conftest import START
from tests.support.databases import Clock

SCORE = Score(0.5, 0.4, 12, 2.5)
ANN, BOB = Actor("ann"), Actor("bob")
HOUR = timedelta(hours=1)


def a_plan(moves: int = 2, **other: object) -> StoredPlan:
    made = tuple(
        Move(job, 100 + job, 200 + job, START + HOUR, START + 2 * HOUR, START + 2 * HOUR)
        for job in range(1, moves + 1)
    )
    skipped = (SkippedJob(99, SkipReason.RUNNING),)
    summary = PlanSummary(
        id=uuid4(),
        made_at=START,
        made_by="ann",
        before=SCORE,
        after=replace(SCORE, score=0.9),
        attainable_score=0.95,
        suggestion="Moving 2 of 3 jobs helps",
        move_count=moves,
        skip_count=1,
        seen=7,
        job_count=3,
    )
    uids = {job: uuid4() for job in (*range(1, moves + 1), 99)}
    return StoredPlan(replace(summary, **other), made, skipped, uids)


async def keep(database: Database, plan: StoredPlan, *, applied: bool = False) -> StoredPlan:
    async with database.transaction() as session:
        await rebalance_plans.insert_plan(session, plan)
        if applied:
            await rebalance_plans.mark_applied(session, plan.summary.id, by=BOB)
    return plan


async def test_a_plan_comes_back_as_it_was_kept(database: Database) -> None:
    plan = await keep(database, a_plan(group="shop", max_moves=2))
    assert await rebalance_plans.find_plan(database, plan.summary.id) == plan


async def test_many_moves_are_kept_piece_by_piece(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalance_plans, "ROWS_AT_ONCE", 3)
    plan = await keep(database, a_plan(moves=8))
    assert (await rebalance_plans.find_plan(database, plan.summary.id)).moves == plan.moves


async def test_nobody_finds_a_plan_that_is_not_there(database: Database) -> None:
    with pytest.raises(NotFound, match="kept for a day"):
        await rebalance_plans.find_plan(database, uuid4())


async def test_rebalances_are_numbered_and_undos_are_not(database: Database) -> None:
    assert await rebalance_plans.count_rebalances(database) == RebalanceTotals()
    first = await keep(database, a_plan(), applied=True)
    await keep(database, a_plan(undoes=first.summary.id), applied=True)
    assert await rebalance_plans.count_rebalances(database) == RebalanceTotals(
        total=1, moved=2, skipped=1
    )
    await keep(database, a_plan(moves=5), applied=True)
    assert await rebalance_plans.count_rebalances(database) == RebalanceTotals(
        total=2, moved=5, skipped=1
    )


async def test_the_last_one_is_what_moved_something_and_was_not_taken_back(
    database: Database,
) -> None:
    assert await rebalance_plans.find_last_applied(database) is None
    first, second = [await keep(database, a_plan(), applied=True) for _ in range(2)]
    await keep(database, a_plan(moves=0), applied=True)
    await keep(database, a_plan())
    await keep(database, a_plan(undoes=uuid4()), applied=True)
    last = await rebalance_plans.find_last_applied(database)
    assert last is not None
    assert (last.id, last.applied_by, last.applied_at) == (second.summary.id, "bob", START)
    await rebalance_plans.mark_undone(database, second.summary.id, by=ANN)
    before = await rebalance_plans.find_last_applied(database)
    assert before is not None
    assert before.id == first.summary.id


async def test_the_state_of_a_plan_follows_from_what_became_of_it(
    database: Database, clock: Clock
) -> None:
    plan = await keep(database, a_plan())
    assert plan.summary.state(START + timedelta(minutes=5)) is PlanState.PREVIEWED
    assert plan.summary.state(START + timedelta(minutes=5, seconds=1)) is PlanState.EXPIRED
    await rebalance_plans.mark_applied(database, plan.summary.id, by=BOB)
    [kept] = await rebalance_plans.list_plans(database, limit=10)
    assert kept.state(START + HOUR) is PlanState.APPLIED
    await rebalance_plans.mark_undone(database, plan.summary.id, by=BOB)
    [kept] = await rebalance_plans.list_plans(database, limit=10)
    assert kept.state(START + HOUR) is PlanState.UNDONE


async def test_previews_are_forgotten_after_a_day_and_rebalances_after_ninety(
    database: Database, clock: Clock
) -> None:
    await keep(database, a_plan())
    applied = [await keep(database, a_plan(), applied=True) for _ in range(2)]
    await clock.advance(days=1, seconds=1)
    assert await rebalance_plans.remove_old_plans(database, limit=10) == 1
    assert len(await rebalance_plans.list_plans(database, limit=10)) == 2
    await clock.advance(days=90)
    assert await rebalance_plans.remove_old_plans(database, limit=10) == 1
    [last] = await rebalance_plans.list_plans(database, limit=10)
    assert last.id == applied[1].summary.id, "it counts the rebalances"
    assert (await rebalance_plans.find_plan(database, last.id)).moves


async def test_the_history_shows_the_worst_of_every_step(database: Database, clock: Clock) -> None:
    for score in (0.9, 0.3, 0.8):
        await scores.insert_score(database, replace(SCORE, score=score), 10)
        await clock.advance(minutes=5)
    whole = await scores.list_scores(database, reach=HOUR, step=timedelta(minutes=1))
    assert [point.score.score for point in whole] == [0.9, 0.3, 0.8]
    assert [point.at for point in whole] == [
        START + timedelta(minutes=minutes) for minutes in (0, 5, 10)
    ]
    [worst] = await scores.list_scores(database, reach=HOUR, step=HOUR)
    assert (worst.score.score, worst.at, worst.job_count) == (0.3, START + timedelta(minutes=5), 10)
    assert await scores.remove_old_scores(database, kept_for=timedelta(minutes=12), limit=10) == 1
    recent = await scores.list_scores(database, reach=timedelta(minutes=8), step=HOUR)
    assert [point.score.score for point in recent] == [0.8]
