"""Exported history: every run that matches, once, even of a removed job."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.core.jobs.model import RunState
from evenbeat.core.runs.run_export import EVERY_RUN, RunFilter
from evenbeat.store.database.pool import Database
from evenbeat.store.runs import runs

WORLD = (Path(__file__).parents[2] / "verify" / "world.sql").read_text()


@pytest.fixture
async def world(database: Database) -> Database:
    async with database.connection() as connection:
        await connection.execute(WORLD)
    return database


async def ids(database: Database, chosen: RunFilter = EVERY_RUN, at_once: int = 500) -> list[int]:
    return [each.run.id async for each in runs.export_runs(database.url, "set", chosen, at_once)]


async def test_every_run_comes_once_the_one_in_hand_too(world: Database) -> None:
    assert await ids(world) == list(range(1, 15))
    assert await ids(world, at_once=3) == list(range(1, 15))


async def test_a_filter_chooses(world: Database, settings: Settings) -> None:
    assert await ids(world, RunFilter(states=frozenset([RunState.FAILED]))) == [5, 6, 7]
    assert await ids(world, RunFilter(states=frozenset([RunState.RUNNING]))) == [8]
    since, until = (datetime(2030, 1, 1, 12, minute, tzinfo=UTC) for minute in (2, 3))
    assert await ids(world, RunFilter(since=since, until=until)) == [2, 7, 14]
    async with Evenbeat(settings) as eb:
        found = [each async for each in eb.runs.export()]
        uid = next(each.job_uid for each in found if each.run.id == 11)
        assert [each.run.id async for each in eb.runs.export(RunFilter(job_uid=uid))] == [10, 11]


@pytest.mark.breaks_rules("a job is removed, and its runs are left")
async def test_runs_of_a_removed_job_are_history_too(world: Database) -> None:
    async with world.connection() as connection:
        await connection.execute("delete from evenbeat.job where id = 4")
    found = [each async for each in runs.export_runs(world.url, "set", EVERY_RUN)]
    [gone] = [each for each in found if each.run.id == 9]
    assert (gone.job_uid, gone.job_name, gone.kind) == (None, None, None)
