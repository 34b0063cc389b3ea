"""Statistics by kind, group, job and day: the same before, while and after runs are counted."""

import random
from datetime import timedelta

import pytest

from evenbeat.config import Settings
from evenbeat.control.ops.statistics import StatisticsQueries
from evenbeat.core.jobs.model import State
from evenbeat.core.ops.statistics import (
    Activity,
    Overview,
    StatisticsScope,
    activity_of,
    fill_missing_days,
)
from evenbeat.store.database.pool import Database
from tests.conftest import START
from tests.support.run_histories import DAY, Ran, RunHistory, janitor_of, tidy


@pytest.fixture
def run_history(database: Database) -> RunHistory:
    return RunHistory(database)


async def told(run_history: RunHistory, jobs: list[int]) -> list[object]:
    counts = StatisticsQueries(run_history.database)
    scopes = [
        StatisticsScope(),
        StatisticsScope(kind="echo"),
        StatisticsScope(group="site"),
        StatisticsScope(kind="none"),
    ]
    scopes += [StatisticsScope(job_id=job) for job in jobs]
    return [
        *[(await counts.of_all(scope)).runs for scope in scopes],
        *[await counts.trend(40, scope) for scope in scopes],
    ]


async def test_counted_or_not_statistics_and_trends_say_the_same(
    run_history: RunHistory, settings: Settings
) -> None:
    chance = random.Random(7)
    jobs = [
        await run_history.job(START - 50 * DAY, group=group) for group in ("site", "other", None)
    ]
    await run_history.write(
        Ran(job, number, START - (20 - number + chance.random()) * DAY, chance.choice("ccflxk"))
        for job in jobs
        for number in range(1, 16)
    )
    before = await told(run_history, jobs)
    assert before[2] == before[4], "the group has one job"
    await tidy(janitor_of(run_history.database, settings), run_history.database)
    assert await run_history.value("select count(*) from evenbeat.run_day") > 0
    assert await told(run_history, jobs) == before


async def test_a_trend_is_of_the_last_days_and_adds_up(run_history: RunHistory) -> None:
    job = await run_history.job(START - 50 * DAY)
    await run_history.write(Ran(job, n, START - (10 - n) * DAY, "c") for n in range(1, 11))
    counts = StatisticsQueries(run_history.database)
    days = await counts.trend(4)
    assert [(each.day.isoformat(), each.runs.completed) for each in days] == [
        ("2029-12-29", 1),
        ("2029-12-30", 1),
        ("2029-12-31", 1),
        ("2030-01-01", 1),
    ]
    assert sum(each.runs.completed for each in await counts.trend(400)) == 10
    assert (await counts.of_all()).runs.completed == 10


def test_days_without_a_run_are_told_too() -> None:
    days = fill_missing_days([], START.date(), 3)
    assert [START.date() - each.day for each in days] == [2 * DAY, 1 * DAY, timedelta(0)]
    assert [each.runs.total for each in days] == [0, 0, 0]
    assert days[0].runs.success_rate is None


def test_every_state_is_one_of_the_registrys_three() -> None:
    aside = {state: activity_of(state) for state in State if activity_of(state) != "active"}
    assert aside == {"paused": "paused", "disabled": "disabled", "cancelled": "disabled"}
    counts = dict.fromkeys(State, 2)
    overview = Overview(
        counts, fill_missing_days([], START.date(), 1)[0].runs, 0, 0, 0, None, START
    )
    assert overview.activity == {
        Activity.ACTIVE: 2 * (len(State) - 3),
        Activity.PAUSED: 2,
        Activity.DISABLED: 4,
    }
