"""Waking the nodes: at once in quiet, once for all in a rush, and not for what is far away."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.runs.outcome import Done
from evenbeat.observe import log
from evenbeat.store.database import clock as clocks
from evenbeat.store.database.pool import Database
from tests.control.given import definition
from tests.engine.node_runner import Does, NodeRunner
from tests.support.waiting import eventually


@pytest.fixture
async def heard(database: Database) -> AsyncIterator[list[Any]]:
    told: list[Any] = []
    connection = await asyncpg.connect(database.url)
    await connection.add_listener("evenbeat_wake", lambda *each: told.append(each))
    yield told
    await connection.close()


async def told_all(heard: list[Any], database: Database) -> int:
    """How many wake-ups there were, once one that we can tell from them has come through."""
    async with database.connection() as connection:
        await connection.execute("notify evenbeat_wake, 'the last one'")
    await eventually(lambda: any(each[-1] == "the last one" for each in heard), "the last one")
    return len(heard) - 1


async def test_a_job_added_in_quiet_is_heard_of_with_its_commit(
    jobs: Jobs, database: Database, heard: list[Any]
) -> None:
    await jobs.add(definition())
    assert jobs._admission._waker._waking is None
    assert await told_all(heard, database) == 1


async def test_a_rush_is_heard_of_and_costs_few_wake_ups(
    jobs: Jobs, database: Database, heard: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "PAUSE", 0.5)
    monkeypatch.setattr("evenbeat.control.jobs.adding.QUIET", 3600.0)
    await jobs.add(definition())
    await asyncio.gather(*(jobs.add(definition()) for _ in range(50)))
    await jobs.close()
    assert 1 <= await told_all(heard, database) <= 5


async def test_a_job_that_is_stored_while_the_nodes_are_woken_is_heard_of_too(
    jobs: Jobs, database: Database, heard: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    waker, woken = jobs._admission._waker, asyncio.Event()
    real = clocks.wake

    async def wake_and_be_asked_again(session: Any) -> None:
        if not woken.is_set():
            woken.set()
            waker.wake_soon()
        await real(session)

    monkeypatch.setattr(clocks, "wake", wake_and_be_asked_again)
    waker.wake_soon()
    await waker.done()
    monkeypatch.setattr(clocks, "wake", real)
    assert await told_all(heard, database) == 2


async def test_what_is_due_later_than_any_check_wakes_nobody(
    jobs: Jobs, database: Database, heard: list[Any]
) -> None:
    for _ in range(3):
        await jobs.add(definition("every 1h"))
    await jobs.add_many([definition("every 1h")] * 3)
    await jobs.close()
    assert await told_all(heard, database) == 0


async def test_a_node_hears_of_every_job_of_a_rush(node_runner: NodeRunner, jobs: Jobs) -> None:
    handled: list[Any] = []
    work = Does(lambda context: handled.append(context.payload) or Done())
    # So patient that only wake-ups can make it look.
    async with node_runner.node(work, check_interval=node_runner.settings.lease_duration):
        for n in range(60):
            await jobs.add(definition(payload=n))
        await eventually(lambda: len(handled) == 60, "all of them, by wake-ups alone")


async def test_a_database_that_is_gone_when_the_nodes_are_to_be_woken_is_only_told(
    database: Database,
) -> None:
    other = Database(database.url)
    await other.open()
    waker = clocks.Waker(other)
    with capture_logs() as lines:
        waker.wake_soon()
        await other.close()
        await waker.done()
    # Whether there was still somebody to ask is a matter of milliseconds.
    assert {line["event"] for line in lines} <= {log.LOOP_FAILED}
