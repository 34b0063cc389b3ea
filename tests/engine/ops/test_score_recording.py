"""What a node does for balancing besides placing: keeps the score, and forgets what is old."""

from dataclasses import replace
from datetime import timedelta

import pytest

from evenbeat.config import Settings
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.balance.model import Score
from evenbeat.core.balance.plan_records import PlanSummary, StoredPlan
from evenbeat.core.jobs.model import Definition
from evenbeat.core.ops.audit import PYTHON
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.placement.placer import Placer
from evenbeat.store.balance import rebalance_plans, scores
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs.job_inserts import new_job_uid
from evenbeat.store.ops import chores, figures, nodes
from tests.conftest import START
from tests.support.databases import Clock
from tests.support.run_histories import janitor_of, work

SCORE = Score(0.5, 0.5, 10, 2.0)
HERD = [Definition("echo", Timetable(parse_schedule("every 1d")))] * 12


@pytest.mark.parametrize("balancing", ["on", "observe", "off"])
async def test_a_node_writes_down_how_even_the_load_is_whatever_the_mode(
    database: Database, settings: Settings, balancing: str
) -> None:
    await nodes.open_lanes(database, ["echo"])
    jobs = Jobs(database, Registry(), Placer(database, balancing))
    await jobs.add_many(HERD)
    await jobs.close()
    await work(janitor_of(database, settings, balancing=balancing))
    [point] = await scores.list_scores(
        database, reach=timedelta(hours=1), step=timedelta(minutes=1)
    )
    shown = await figures.read_balance(database)
    assert shown is not None
    assert (point.at, point.job_count, point.score) == (START, 12, shown.score)
    assert (shown.score.score == 1.0) is (balancing == "on")
    assert sum(shown.job_counts) in (12, 13), "a day has 24 hours, and the herd is at its edge"


async def test_old_scores_and_plans_are_forgotten(
    database: Database, settings: Settings, clock: Clock
) -> None:
    summary = PlanSummary(
        id=new_job_uid(START),
        made_at=START,
        made_by=PYTHON.name,
        before=SCORE,
        after=SCORE,
        attainable_score=0.5,
        suggestion=None,
        move_count=0,
        skip_count=0,
    )
    async with database.transaction() as session:
        await rebalance_plans.insert_plan(session, StoredPlan(summary, (), (), {}))
        await scores.insert_score(session, SCORE, 12)
    await clock.advance(days=401)
    newer = replace(summary, id=new_job_uid(clock.now), made_at=clock.now)
    async with database.transaction() as session:
        await rebalance_plans.insert_plan(session, StoredPlan(newer, (), (), {}))
    janitor = janitor_of(database, settings)
    await work(janitor)
    await chores.make_all_due(database)
    await work(janitor)
    assert [plan.id for plan in await rebalance_plans.list_plans(database, limit=9)] == [newer.id]
    kept = await scores.list_scores(database, reach=timedelta(days=999), step=timedelta(minutes=1))
    assert [point.at for point in kept] == [clock.now], "what this janitor has seen itself"
    counts = {chore.name: chore.total_count for chore in await chores.list_chores(database)}
    assert (counts["plans"], counts["scores"]) == (1, 1)
