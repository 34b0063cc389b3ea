"""Jobs that are added at the same moment: written together, and each answered for itself."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from evenbeat.control.jobs import group_commit, lost_answers
from evenbeat.control.jobs.adding import LARGEST_TOGETHER, JobAdder
from evenbeat.control.jobs.group_commit import MOST_TOGETHER, MOST_UNDER_WAY, GroupCommit
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.jobs.model import Definition
from evenbeat.core.ops.audit import PYTHON, Actor
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database import pool as store_database
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs
from tests.control.given import definition, fetch, value
from tests.engine.node_runner import Does
from tests.support.cutting_proxy import CuttingProxy, cutting_proxy
from tests.support.waiting import eventually

MARK = "cut-here"
HELD_UP = """
    select count(*) = $1 from pg_locks
    where relation = 'evenbeat.audit'::regclass and not granted
"""


class RecordedBatches:
    """Takes what is written, one list at a time, when it is told to."""

    def __init__(self, at_once: int = 1) -> None:
        self.written: list[list[str]] = []
        self.go_on = asyncio.Event()
        self.at_once = at_once
        self.gathering = GroupCommit(self.write, at_once)

    async def write(self, items: list[str]) -> None:
        self.written.append(items)
        await self.go_on.wait()
        if "lost" in items:
            raise StoreUnavailable("gone")
        if "bad" in items:
            raise ValueError("bad")

    async def begin(self, *items: str) -> list[asyncio.Task[None]]:
        """All of them asked for; the first ones are on their way."""
        tasks = [asyncio.create_task(self.gathering.add(item)) for item in items]
        await eventually(lambda: len(self.gathering) == len(items) - self.at_once)
        return tasks


async def test_who_comes_alone_waits_for_nobody() -> None:
    batches = RecordedBatches()
    batches.go_on.set()
    for item in ("a", "b"):
        await batches.gathering.add(item)
    assert batches.written == [["a"], ["b"]]


async def test_who_comes_meanwhile_goes_together() -> None:
    batches = RecordedBatches()
    tasks = await batches.begin("a", "b", "c", "d")
    assert batches.written == [["a"]]
    batches.go_on.set()
    await asyncio.gather(*tasks)
    assert batches.written == [["a"], ["b", "c", "d"]]
    await batches.gathering.add("e")
    assert batches.written[2:] == [["e"]]


async def test_so_many_are_written_at_once_and_no_more() -> None:
    batches = RecordedBatches(at_once=2)
    tasks = await batches.begin("a", "b", "c", "d", "e")
    assert batches.written == [["a"], ["b"]]
    tasks[0].cancel()
    await eventually(lambda: len(batches.written) == 3)
    batches.go_on.set()
    await asyncio.gather(*tasks[1:])
    assert batches.written == [["a"], ["b"], ["c", "d", "e"]]
    await batches.gathering.add("f")


async def test_no_more_go_together_than_one_statement_may_hold() -> None:
    batches = RecordedBatches()
    tasks = await batches.begin("first", *map(str, range(MOST_TOGETHER + 1)))
    batches.go_on.set()
    await asyncio.gather(*tasks)
    assert [len(items) for items in batches.written] == [1, MOST_TOGETHER, 1]


async def test_one_that_cannot_be_written_is_told_so_and_the_others_are_written() -> None:
    batches = RecordedBatches()
    tasks = await batches.begin("first", "a", "bad", "b")
    batches.go_on.set()
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in told] == [type(None), type(None), ValueError, type(None)]
    assert batches.written == [["first"], ["a", "bad", "b"], ["a"], ["bad"], ["b"]]


async def test_when_the_database_is_lost_nothing_is_written_again() -> None:
    """It may have been stored: trying again might store it twice."""
    batches = RecordedBatches()
    tasks = await batches.begin("first", "a", "lost")
    batches.go_on.set()
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in told] == [type(None), StoreUnavailable, StoreUnavailable]
    assert len(batches.written) == 2
    await batches.gathering.add("later")


async def test_the_first_ones_error_is_its_own() -> None:
    batches = RecordedBatches()
    tasks = await batches.begin("bad", "a")
    batches.go_on.set()
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in told] == [ValueError, type(None)]


async def test_who_goes_away_while_it_waits_is_left_out_and_keeps_nobody_waiting() -> None:
    batches = RecordedBatches()
    first, gone, other = await batches.begin("first", "gone", "other")
    gone.cancel()
    await asyncio.wait([gone])
    first.cancel()
    batches.go_on.set()
    await other
    assert batches.written == [["first"], ["other"]]


async def test_who_goes_away_in_the_midst_of_it_takes_nobody_along() -> None:
    batches = RecordedBatches()
    first, gone, other = await batches.begin("first", "gone", "other")
    first.cancel()
    await eventually(lambda: len(batches.written) == 2)
    gone.cancel()
    batches.go_on.set()
    await other
    await batches.gathering.done()
    assert batches.written == [["first"], ["gone", "other"]]


async def test_done_waits_for_what_is_on_its_way() -> None:
    batches = RecordedBatches()
    tasks = await batches.begin("first", "a", "b")
    batches.go_on.set()
    await tasks[0]
    await batches.gathering.done()
    assert batches.written == [["first"], ["a", "b"]]


class LaterClock:
    """The event loop's own clock, which can be moved on: what is to happen then happens at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", self.time)
        monkeypatch.setattr(group_commit, "LONGEST_WAIT", 1000.0)

    def time(self) -> float:
        return time.monotonic() + self.ahead


async def test_who_has_waited_too_long_is_told_so_and_never_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, batches = LaterClock(monkeypatch), RecordedBatches()
    first, late = await batches.begin("first", "late")
    clock.ahead = 1001.0
    with pytest.raises(StoreUnavailable, match="nothing was stored: add it again"):
        await late
    batches.go_on.set()
    await first
    await batches.gathering.add("next")
    assert batches.written == [["first"], ["next"]]


async def test_who_is_being_written_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be stored already."""
    clock, batches = LaterClock(monkeypatch), RecordedBatches()
    first, other = await batches.begin("first", "other")
    first.cancel()
    await eventually(lambda: len(batches.written) == 2)
    clock.ahead = 1001.0
    # A timer that is due runs before this one.
    await asyncio.sleep(0.01)
    assert not other.done()
    batches.go_on.set()
    await other


@pytest.fixture(autouse=True)
def nobody_is_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, what a test holds up is not given up meanwhile."""
    for limit in ("lock_timeout", "statement_timeout"):
        monkeypatch.setitem(store_database.SESSION_SETTINGS, limit, "10min")
    monkeypatch.setattr(store_database, "COMMAND_TIMEOUT", 600.0)
    monkeypatch.setattr(group_commit, "LONGEST_WAIT", 600.0)
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
    """From behind the proxy, with the usual lane open, and the statement known to every
    connection: who has to prepare it first might be held up in that already."""
    ours = Database(proxy.url, clock="set", pool_size=4)
    await ours.open()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            connection = await stack.enter_async_context(ours.connection())
            await admission.add(definition(), None, connection, PYTHON)
    made = JobAdder(ours, Registry([Does(Done())]))
    yield made
    await made.close()
    await ours.close()


def waits(admission: JobAdder, count: int) -> bool:
    return len(admission.gathering) == count


async def held_up(
    admission: JobAdder, database: Database, given: list[tuple[Definition, Actor]]
) -> list[Any]:
    """These jobs, or their errors, added while the first ones are kept from being written."""
    tasks: list[asyncio.Task[Any]] = []
    async with database.connection() as other, other.transaction():
        await other.execute("lock table evenbeat.audit in share mode")
        for each, by in given:
            tasks.append(asyncio.create_task(admission.add(each, None, None, by)))
            under_way = min(len(tasks), MOST_UNDER_WAY)
            await eventually(partial(value, database, HELD_UP, under_way))
            await eventually(partial(waits, admission, len(tasks) - under_way))
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_jobs_that_come_at_once_are_one_transaction_each_with_its_own_answer(
    admission: JobAdder, database: Database
) -> None:
    given = [
        (definition("now" if n % 2 else "every 1h", payload={"n": n}), Actor(f"p{n}", f"r{n}"))
        for n in range(6)
    ]
    # Whoever is first finds its lane closed, and goes another way.
    await admission.add(definition(), None, None, PYTHON)
    added = await held_up(admission, database, given)
    assert await value(database, "select count(distinct xmin::text) from evenbeat.job") == 4
    for job, (wanted, by) in zip(added, given, strict=True):
        assert job.definition.payload == wanted.payload
        assert job.is_new
        assert replace(job, is_new=False) == await jobs.find_job(database, job.uid)
        query = "select actor, request_id from evenbeat.audit where job_uid = $1"
        [noted] = await fetch(database, query, job.uid)
        assert tuple(noted) == (by.name, by.request_id)


async def test_a_lane_that_is_not_open_yet_is_opened_for_those_who_need_it(
    admission: JobAdder, database: Database
) -> None:
    labels = ((), ("gpu",), (), ("gpu", "big"))
    given = [(definition(runs_on=each), Actor("p", "r")) for each in labels]
    added = await held_up(admission, database, given)
    for job, (wanted, _) in zip(added, given, strict=True):
        found = await jobs.find_job(database, job.uid)
        assert set(found.definition.runs_on) == set(wanted.runs_on)
    assert await value(database, "select count(*) from evenbeat.job") == 4


async def test_who_might_wait_for_others_goes_its_own_way(
    admission: JobAdder, database: Database
) -> None:
    """A name or a key may be taken by somebody who takes long; much takes long by itself."""
    by = Actor("p", "r")
    async with database.connection() as other, other.transaction():
        await other.execute("lock table evenbeat.audit in share mode")
        ways: list[Any] = [
            *(admission.add(definition(), None, None, by) for _ in range(MOST_UNDER_WAY)),
            admission.add(definition(name="a"), None, None, by),
            admission.add(definition(), "key", None, by),
            admission.add(definition(payload="x" * LARGEST_TOGETHER), None, None, by),
            # In bytes, that is.
            admission.add(definition(payload="ü" * (LARGEST_TOGETHER // 2)), None, None, by),
        ]
        tasks = [asyncio.create_task(way) for way in ways]
        await eventually(partial(value, database, HELD_UP, len(tasks)))
        assert len(admission.gathering) == 0
    await asyncio.gather(*tasks)


async def test_whoever_cannot_be_told_is_told_where_to_look_for_its_own_job(
    far: JobAdder, proxy: CuttingProxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_answers, "PATIENCE", 0.2)
    proxy.closes_after_cut = True
    proxy.cut_on(MARK, "answer")
    payloads = ("a", "b", MARK, f"{MARK} 2")
    given = [(definition(payload=each), Actor("p", "r")) for each in payloads]
    _, _, *told = await held_up(far, database, given)
    for what, error in zip(payloads[2:], told, strict=True):
        query = "select uid::text from evenbeat.job where payload = to_jsonb($1::text)"
        assert isinstance(error, lost_answers.UnknownIfStored)
        assert await value(database, query, what) in str(error)


async def test_a_closed_lane_and_a_lost_answer_leave_nobody_without_a_job(
    far: JobAdder, proxy: CuttingProxy, database: Database
) -> None:
    """The statement has left out those whose lane was closed: that it was done says nothing of
    them."""
    proxy.cut_on(MARK, "answer")
    asked = [("a", ()), ("b", ()), ("c", ("gpu",)), (MARK, ()), ("d", ("big", "gpu"))]
    given = [(definition(payload=what, runs_on=on), Actor("p", "r")) for what, on in asked]
    added = await held_up(far, database, given)
    assert proxy.cuts == 1
    for job, (what, on) in zip(added, asked, strict=True):
        assert job.is_new
        found = await jobs.find_job(database, job.uid)
        assert (found.definition.payload, sorted(found.definition.runs_on)) == (what, list(on))
    assert await value(database, "select count(*) from evenbeat.job") == 4 + len(asked)


async def test_while_some_are_looked_for_others_are_written(
    far: JobAdder, proxy: CuttingProxy, database: Database
) -> None:
    async def insist() -> Any:
        # Of the connections that were cut, some may be found out only now.
        while True:
            with contextlib.suppress(StoreUnavailable):
                return await far.add(definition(), None, None, PYTHON)

    async with database.connection() as other, other.transaction():
        # What the server has been asked for waits for this, whatever becomes of its connection.
        await other.execute("lock table evenbeat.audit in share mode")
        adding = [
            asyncio.create_task(far.add(definition(), None, None, PYTHON))
            for _ in range(MOST_UNDER_WAY)
        ]
        await eventually(partial(value, database, HELD_UP, MOST_UNDER_WAY))
        proxy.close()
        adding.append(asyncio.create_task(insist()))
        await eventually(partial(value, database, HELD_UP, MOST_UNDER_WAY + 1))
        assert not any(task.done() for task in adding)
    assert all(job.is_new for job in await asyncio.gather(*adding))


async def test_a_network_that_is_cut_is_found_out_once_for_all_connections(
    database: Database,
) -> None:
    async def pids() -> set[int]:
        async with database.connection() as one, database.connection() as other:
            return {one.get_server_pid(), other.get_server_pid()}

    async def time_out(_: object) -> None:
        raise StoreUnavailable("no answer") from TimeoutError()

    before = await pids()
    unanswered = await lost_answers.try_write(database, time_out)
    assert unanswered is not None
    assert unanswered.pid in before
    assert not before & await pids()
