"""Jobs that are added at the same moment are written together; each caller gets its own job."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from evenbeat.control.jobs.adding import JobAdder
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.jobs.model import Definition
from evenbeat.core.ops.audit import Actor
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database import pool as store_database
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import job_writer, jobs, lost_answers
from evenbeat.store.jobs.job_writer import (
    LARGEST_SHARED_PAYLOAD,
    MOST_BATCHES_AT_ONCE,
    MOST_IN_BATCH,
    GroupCommit,
)
from tests.control.given import definition, fetch, value
from tests.engine.node_runner import Does
from tests.support.cutting_proxy import CuttingProxy, cutting_proxy
from tests.support.waiting import eventually

MARK = "cut-here"
HELD_UP = """
    select count(*) = $1 from pg_locks
    where relation = 'evenbeat.audit'::regclass and not granted
"""


class RecordedWrites:
    """Records each batch that is written, and finishes writing when a test lets it."""

    def __init__(self, at_once: int = 1) -> None:
        self.batches: list[list[str]] = []
        self.may_finish = asyncio.Event()
        self.at_once = at_once
        self.group_commit = GroupCommit(self.write, at_once)

    async def write(self, items: list[str]) -> None:
        self.batches.append(items)
        await self.may_finish.wait()
        if "lost" in items:
            raise StoreUnavailable("gone")
        if "bad" in items:
            raise ValueError("bad")

    async def begin(self, *items: str) -> list[asyncio.Task[None]]:
        """Add all of these items; the first ones are being written, the others wait."""
        tasks = [asyncio.create_task(self.group_commit.add(item)) for item in items]
        await eventually(lambda: self.group_commit.waiting_count == len(items) - self.at_once)
        return tasks


async def test_an_item_that_arrives_alone_is_written_at_once() -> None:
    writes = RecordedWrites()
    writes.may_finish.set()
    for item in ("a", "b"):
        await writes.group_commit.add(item)
    assert writes.batches == [["a"], ["b"]]


async def test_items_that_arrive_during_a_write_are_written_together() -> None:
    writes = RecordedWrites()
    tasks = await writes.begin("a", "b", "c", "d")
    assert writes.batches == [["a"]]
    writes.may_finish.set()
    await asyncio.gather(*tasks)
    assert writes.batches == [["a"], ["b", "c", "d"]]
    await writes.group_commit.add("e")
    assert writes.batches[2:] == [["e"]]


async def test_no_more_batches_than_allowed_are_written_at_once() -> None:
    writes = RecordedWrites(at_once=2)
    tasks = await writes.begin("a", "b", "c", "d", "e")
    assert writes.batches == [["a"], ["b"]]
    tasks[0].cancel()
    await eventually(lambda: len(writes.batches) == 3)
    writes.may_finish.set()
    await asyncio.gather(*tasks[1:])
    assert writes.batches == [["a"], ["b"], ["c", "d", "e"]]
    await writes.group_commit.add("f")


async def test_a_batch_has_no_more_items_than_one_statement_may_hold() -> None:
    writes = RecordedWrites()
    tasks = await writes.begin("first", *map(str, range(MOST_IN_BATCH + 1)))
    writes.may_finish.set()
    await asyncio.gather(*tasks)
    assert [len(items) for items in writes.batches] == [1, MOST_IN_BATCH, 1]


async def test_an_item_that_cannot_be_written_fails_alone_and_the_others_are_written() -> None:
    writes = RecordedWrites()
    tasks = await writes.begin("first", "a", "bad", "b")
    writes.may_finish.set()
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in told] == [type(None), type(None), ValueError, type(None)]
    assert writes.batches == [["first"], ["a", "bad", "b"], ["a"], ["bad"], ["b"]]


async def test_when_the_database_is_lost_nothing_is_written_again() -> None:
    """It may have been stored: trying again might store it twice."""
    writes = RecordedWrites()
    tasks = await writes.begin("first", "a", "lost")
    writes.may_finish.set()
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in told] == [type(None), StoreUnavailable, StoreUnavailable]
    assert len(writes.batches) == 2
    await writes.group_commit.add("later")


async def test_the_error_of_the_first_item_is_raised_to_its_caller_only() -> None:
    writes = RecordedWrites()
    tasks = await writes.begin("bad", "a")
    writes.may_finish.set()
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in told] == [ValueError, type(None)]


async def test_the_item_of_a_caller_that_is_cancelled_while_it_waits_is_left_out() -> None:
    writes = RecordedWrites()
    first, gone, other = await writes.begin("first", "gone", "other")
    gone.cancel()
    await asyncio.wait([gone])
    first.cancel()
    writes.may_finish.set()
    await other
    assert writes.batches == [["first"], ["other"]]


async def test_a_batch_is_written_for_the_others_if_one_caller_is_cancelled_during_the_write() -> (
    None
):
    writes = RecordedWrites()
    first, gone, other = await writes.begin("first", "gone", "other")
    first.cancel()
    await eventually(lambda: len(writes.batches) == 2)
    gone.cancel()
    writes.may_finish.set()
    await other
    await writes.group_commit.close()
    assert writes.batches == [["first"], ["gone", "other"]]


async def test_close_waits_for_the_batches_that_are_being_written() -> None:
    writes = RecordedWrites()
    tasks = await writes.begin("first", "a", "b")
    writes.may_finish.set()
    await tasks[0]
    await writes.group_commit.close()
    assert writes.batches == [["first"], ["a", "b"]]


class LaterClock:
    """The event loop's own clock, which a test can move on: due timers then run at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", self.time)
        monkeypatch.setattr(job_writer, "LONGEST_WAIT", 1000.0)

    def time(self) -> float:
        return time.monotonic() + self.ahead


async def test_an_item_that_has_waited_too_long_is_refused_and_never_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, writes = LaterClock(monkeypatch), RecordedWrites()
    first, late = await writes.begin("first", "late")
    clock.ahead = 1001.0
    with pytest.raises(StoreUnavailable, match="nothing was stored: add it again"):
        await late
    writes.may_finish.set()
    await first
    await writes.group_commit.add("next")
    assert writes.batches == [["first"], ["next"]]


async def test_an_item_that_is_being_written_does_not_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be stored already."""
    clock, writes = LaterClock(monkeypatch), RecordedWrites()
    first, other = await writes.begin("first", "other")
    first.cancel()
    await eventually(lambda: len(writes.batches) == 2)
    clock.ahead = 1001.0
    # A timer that is due runs before this one.
    await asyncio.sleep(0.01)
    assert not other.done()
    writes.may_finish.set()
    await other


@pytest.fixture(autouse=True)
def no_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine too, nothing that a test holds up times out."""
    for limit in ("lock_timeout", "statement_timeout"):
        monkeypatch.setitem(store_database.SESSION_SETTINGS, limit, "10min")
    monkeypatch.setattr(store_database, "COMMAND_TIMEOUT", 600.0)
    monkeypatch.setattr(job_writer, "LONGEST_WAIT", 600.0)
    monkeypatch.setattr(lost_answers, "PATIENCE", 60.0)


@pytest.fixture
async def admission(database: Database) -> AsyncIterator[JobAdder]:
    ours = Database(database.url, clock="set")
    await ours.open()
    made = JobAdder(ours, Registry([Does(Done())]))
    yield made
    await made.close()
    await ours.close()


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[CuttingProxy]:
    async with cutting_proxy(database.url) as made:
        yield made


@pytest.fixture
async def far(proxy: CuttingProxy, admission: JobAdder) -> AsyncIterator[JobAdder]:
    """Jobs from behind the proxy. The usual lane is open, and the insert is prepared on every
    connection: otherwise a test could hold up the preparation instead of the insert."""
    ours = Database(proxy.url, clock="set", pool_size=4)
    await ours.open()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            connection = await stack.enter_async_context(ours.connection())
            await admission.add(definition(), connection=connection)
    made = JobAdder(ours, Registry([Does(Done())]))
    yield made
    await made.close()
    await ours.close()


def is_waiting_count(admission: JobAdder, count: int) -> bool:
    return admission._writer.group_commit.waiting_count == count


async def add_while_locked(
    admission: JobAdder, database: Database, given: list[tuple[Definition, Actor]]
) -> list[Any]:
    """Add these jobs while a lock keeps the first ones from being written; returns the jobs, or
    their errors."""
    tasks: list[asyncio.Task[Any]] = []
    async with database.connection() as other, other.transaction():
        await other.execute("lock table evenbeat.audit in share mode")
        for each, by in given:
            tasks.append(asyncio.create_task(admission.add(each, by=by)))
            under_way = min(len(tasks), MOST_BATCHES_AT_ONCE)
            await eventually(partial(value, database, HELD_UP, under_way))
            await eventually(partial(is_waiting_count, admission, len(tasks) - under_way))
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_jobs_that_are_added_at_once_are_one_transaction_and_each_caller_gets_its_own_job(
    admission: JobAdder, database: Database
) -> None:
    given = [
        (definition("now" if n % 2 else "every 1h", payload={"n": n}), Actor(f"p{n}", f"r{n}"))
        for n in range(6)
    ]
    # The first job finds its lane closed, and is inserted in a transaction of its own.
    await admission.add(definition())
    added = await add_while_locked(admission, database, given)
    assert await value(database, "select count(distinct xmin::text) from evenbeat.job") == 4
    for job, (wanted, by) in zip(added, given, strict=True):
        assert job.definition.payload == wanted.payload
        assert job.is_new
        assert replace(job, is_new=False) == await jobs.find_job(database, job.uid)
        query = "select actor, request_id from evenbeat.audit where job_uid = $1"
        [noted] = await fetch(database, query, job.uid)
        assert tuple(noted) == (by.name, by.request_id)


async def test_a_lane_that_is_not_open_yet_is_opened_for_the_jobs_that_need_it(
    admission: JobAdder, database: Database
) -> None:
    labels = ((), ("gpu",), (), ("gpu", "big"))
    given = [(definition(runs_on=each), Actor("p", "r")) for each in labels]
    added = await add_while_locked(admission, database, given)
    for job, (wanted, _) in zip(added, given, strict=True):
        found = await jobs.find_job(database, job.uid)
        assert set(found.definition.runs_on) == set(wanted.runs_on)
    assert await value(database, "select count(*) from evenbeat.job") == 4


async def test_a_job_that_other_transactions_may_delay_is_inserted_alone(
    admission: JobAdder, database: Database
) -> None:
    """Another transaction may hold its name or its key for long; a large payload takes long."""
    by = Actor("p", "r")
    async with database.connection() as other, other.transaction():
        await other.execute("lock table evenbeat.audit in share mode")
        ways: list[Any] = [
            *(admission.add(definition(), by=by) for _ in range(MOST_BATCHES_AT_ONCE)),
            admission.add(definition(name="a"), by=by),
            admission.add(definition(), dedupe_key="key", by=by),
            admission.add(definition(payload="x" * LARGEST_SHARED_PAYLOAD), by=by),
            # The limit counts bytes, not characters.
            admission.add(definition(payload="ü" * (LARGEST_SHARED_PAYLOAD // 2)), by=by),
        ]
        tasks = [asyncio.create_task(way) for way in ways]
        await eventually(partial(value, database, HELD_UP, len(tasks)))
        assert admission._writer.group_commit.waiting_count == 0
    await asyncio.gather(*tasks)


async def test_a_caller_whose_job_cannot_be_looked_up_gets_the_id_of_its_own_job(
    far: JobAdder, proxy: CuttingProxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_answers, "PATIENCE", 0.2)
    proxy.closes_after_cut = True
    proxy.cut_on(MARK, "answer")
    payloads = ("a", "b", MARK, f"{MARK} 2")
    given = [(definition(payload=each), Actor("p", "r")) for each in payloads]
    _, _, *told = await add_while_locked(far, database, given)
    for what, error in zip(payloads[2:], told, strict=True):
        query = "select uid::text from evenbeat.job where payload = to_jsonb($1::text)"
        assert isinstance(error, lost_answers.UnknownIfStored)
        assert await value(database, query, what) in str(error)


async def test_after_a_closed_lane_and_a_lost_answer_every_caller_has_its_job(
    far: JobAdder, proxy: CuttingProxy, database: Database
) -> None:
    """The statement left out the jobs whose lane was closed: they are stored afterwards."""
    proxy.cut_on(MARK, "answer")
    asked = [("a", ()), ("b", ()), ("c", ("gpu",)), (MARK, ()), ("d", ("big", "gpu"))]
    given = [(definition(payload=what, runs_on=on), Actor("p", "r")) for what, on in asked]
    added = await add_while_locked(far, database, given)
    assert proxy.cuts == 1
    for job, (what, on) in zip(added, asked, strict=True):
        assert job.is_new
        found = await jobs.find_job(database, job.uid)
        assert (found.definition.payload, sorted(found.definition.runs_on)) == (what, list(on))
    assert await value(database, "select count(*) from evenbeat.job") == 4 + len(asked)


async def test_other_jobs_are_written_during_a_look_up(
    far: JobAdder, proxy: CuttingProxy, database: Database
) -> None:
    async def insist() -> Any:
        # Some of the connections that were cut may be noticed only now.
        while True:
            with contextlib.suppress(StoreUnavailable):
                return await far.add(definition())

    async with database.connection() as other, other.transaction():
        # The statements on the server wait for this lock, even after their connection is cut.
        await other.execute("lock table evenbeat.audit in share mode")
        adding = [asyncio.create_task(far.add(definition())) for _ in range(MOST_BATCHES_AT_ONCE)]
        await eventually(partial(value, database, HELD_UP, MOST_BATCHES_AT_ONCE))
        proxy.close()
        adding.append(asyncio.create_task(insist()))
        await eventually(partial(value, database, HELD_UP, MOST_BATCHES_AT_ONCE + 1))
        assert not any(task.done() for task in adding)
    assert all(job.is_new for job in await asyncio.gather(*adding))


async def test_a_cut_network_is_noticed_once_for_all_connections(
    database: Database,
) -> None:
    async def pids() -> set[int]:
        async with database.connection() as one, database.connection() as other:
            return {one.get_server_pid(), other.get_server_pid()}

    async def time_out(_: object) -> None:
        raise StoreUnavailable("no answer") from TimeoutError()

    before = await pids()
    unanswered = await job_writer.try_write(database, time_out)
    assert unanswered is not None
    assert unanswered.pid in before
    assert not before & await pids()
