"""A job whose answer was lost: it is looked up, or reported missing, and never added twice."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.jobs.groups import Group
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import lost_answers
from tests.control.given import counts, definition, value
from tests.engine.node_runner import Does
from tests.support.cutting_proxy import CuttingProxy, cutting_proxy
from tests.support.waiting import eventually

MARK = "cut-here"


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[CuttingProxy]:
    async with cutting_proxy(database.url) as made:
        yield made


@pytest.fixture
async def far(proxy: CuttingProxy, jobs: Jobs) -> AsyncIterator[Jobs]:
    """The same jobs from behind the proxy, with every statement used once."""
    database = Database(proxy.url, clock="set", pool_size=2)
    await database.open()
    made = Jobs(database, Registry([Does(Done())]))
    await made.add(definition())
    yield made
    await made.close()
    await database.close()


async def added(database: Database) -> int:
    query = "select count(*) from evenbeat.job where payload @> $1"
    return await value(database, query, MARK)


async def test_a_job_that_was_stored_is_found_although_the_answer_was_lost(
    far: Jobs, jobs: Jobs, proxy: CuttingProxy, database: Database
) -> None:
    proxy.cut_on(MARK, "answer")
    job = await far.add(definition(payload=MARK))
    assert proxy.cuts == 1
    assert job.is_new
    assert job == await jobs.get(job.uid)
    assert await added(database) == 1


async def test_a_job_that_never_arrived_is_reported_as_not_stored(
    far: Jobs, proxy: CuttingProxy, database: Database
) -> None:
    proxy.cut_on(MARK, "request")
    with pytest.raises(StoreUnavailable, match="nothing was stored: add it again"):
        await far.add(definition(payload=MARK))
    assert proxy.cuts == 1
    assert await added(database) == 0
    assert (await far.add(definition(payload=MARK))).is_new
    assert await added(database) == 1


async def test_while_the_job_cannot_be_looked_up_the_error_has_its_id(
    far: Jobs, proxy: CuttingProxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_answers, "PATIENCE", 0.5)
    proxy.closes_after_cut = True
    proxy.cut_on(MARK, "answer")
    with pytest.raises(StoreUnavailable, match="not known: look for job") as told:
        await far.add(definition(payload=MARK))
    uid = await value(database, "select uid::text from evenbeat.job where payload = $1", MARK)
    assert uid in str(told.value)


async def test_a_database_that_is_back_in_time_is_asked(
    far: Jobs, proxy: CuttingProxy, database: Database
) -> None:
    proxy.closes_after_cut = True
    proxy.cut_on(MARK, "answer")
    adding = asyncio.ensure_future(far.add(definition(payload=MARK)))
    await eventually(lambda: proxy.cuts, "the cut")
    await eventually(lambda: added(database), "the job to be stored")
    assert not adding.done()
    proxy.is_closed = False
    assert (await adding).is_new
    assert await added(database) == 1


@pytest.mark.parametrize(("where", "count"), [("answer", 1), ("request", 0)])
async def test_a_commit_whose_answer_was_lost_is_resolved(
    far: Jobs, proxy: CuttingProxy, database: Database, where: str, count: int
) -> None:
    proxy.cut_on("COMMIT;", where)
    adding = far.add(definition(payload=MARK, group=Group("site")))
    if count:
        assert (await adding).is_new
    else:
        with pytest.raises(StoreUnavailable, match="nothing was stored"):
            await adding
    assert proxy.cuts == 1
    assert await added(database) == (await counts(database))["job_group"] == count


async def test_many_jobs_whose_commit_was_lost_are_all_there_or_none(
    far: Jobs, jobs: Jobs, proxy: CuttingProxy, database: Database
) -> None:
    held = await jobs.add(definition(), dedupe_key="k1")
    given: list[Any] = [(definition(payload=MARK), f"k{n}") for n in range(3)]
    proxy.cut_on("COMMIT;", "request")
    with pytest.raises(StoreUnavailable, match="nothing was stored"):
        await far.add_many(given)
    assert await added(database) == 0
    proxy.cut_on("COMMIT;", "answer")
    batch = await far.add_many(given)
    assert proxy.cuts == 2
    assert (batch.uids[1], batch.found) == (held.uid, {1})
    assert await added(database) == batch.new_count == 2


async def test_a_key_makes_it_safe_to_add_again(
    far: Jobs, proxy: CuttingProxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_answers, "PATIENCE", 0.2)
    proxy.closes_after_cut = True
    proxy.cut_on(MARK, "answer")
    with pytest.raises(StoreUnavailable, match="not known"):
        await far.add(definition(payload=MARK), dedupe_key="k")
    proxy.is_closed = False
    assert not (await far.add(definition(payload=MARK), dedupe_key="k")).is_new
    assert await added(database) == 1


async def test_a_database_that_cannot_be_reached_is_reported_at_once(
    far: Jobs, proxy: CuttingProxy
) -> None:
    proxy.is_closed = True
    proxy.close()
    with pytest.raises(StoreUnavailable) as told:
        await far.add(definition(payload=MARK))
    assert "not known" not in str(told.value)
