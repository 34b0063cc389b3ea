"""Workers: many of them, and what becomes of a task whose worker dies."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contracts.conftest import Workers
from tests.contracts.tasks.client import Client
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.waiting import eventually

MANY = 200
LEASE_EXPIRED = "Task lease expired"


@pytest.fixture(scope="module")
def up(start: Callable[..., Process]) -> str:
    """A process that only answers; the work is done by workers."""
    return asyncio.run(start("server").ready())


async def test_a_due_task_is_claimed_by_one_worker(
    tasks: Client, clock: Clock, workers: Workers, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    now = clock.now.isoformat()
    given = {"type": "signs", "payload": {"book": str(book)}, "runAt": now}
    ids = [(await tasks.created(**given))["id"] for _ in range(MANY)]
    await workers(2)
    await eventually(lambda: all_done(tasks), "all of them are done")
    assert Counter(book.read_text().splitlines()) == dict.fromkeys(ids, 1)


async def all_done(tasks: Client) -> bool:
    answer = await tasks.get("/tasks", status="DONE", limit=1)
    return answer.headers["x-total-count"] == str(MANY)


async def test_a_task_is_canceled_or_run_and_never_both(
    tasks: Client, clock: Clock, workers: Workers, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    book.touch()
    await workers(1)
    soon = (clock.now + timedelta(minutes=1)).isoformat()
    given = {"type": "signs", "payload": {"book": str(book)}, "runAt": soon}
    ids = [(await tasks.created(**given))["id"] for _ in range(60)]
    # The worker takes what is due while it is being canceled.
    _, *answers = await asyncio.gather(clock.advance(minutes=1), *map(tasks.cancel, ids))
    assert {answer.status_code for answer in answers} <= {204, 409}
    is_canceled = [answer.status_code == 204 for answer in answers]
    for task_id, canceled in zip(ids, is_canceled, strict=True):
        await tasks.becomes(task_id, "CANCELED" if canceled else "DONE")
        assert len(await tasks.attempts(task_id)) == (not canceled)
    run = [each for each, canceled in zip(ids, is_canceled, strict=True) if not canceled]
    assert Counter(book.read_text().splitlines()) == dict.fromkeys(run, 1)


async def test_the_task_of_a_worker_that_was_killed_is_tried_again_by_another(
    tasks: Client, clock: Clock, workers: Workers
) -> None:
    [doomed] = await workers(1)
    task = await tasks.created(type="hangs", runAt=clock.now.isoformat(), maxAttempts=2)
    await tasks.becomes(task["id"], "RUNNING", attempt=1)
    doomed.kill()
    await workers(1)
    await tasks.becomes(task["id"], "RUNNING", attempt=2)
    lost, again = await tasks.attempts(task["id"])
    assert (lost["status"], lost["error"]) == ("FAILED", LEASE_EXPIRED)
    assert lost["finishedAt"] is not None
    assert (again["status"], again["attempt"]) == ("STARTED", 2)
    await tasks.http.post(f"/api/v1/jobs/{task['id']}/cancel")
    await tasks.becomes(task["id"], "CANCELED")


async def test_a_task_that_kills_its_worker_fails_after_its_attempts_or_three_of_them(
    tasks: Client, clock: Clock, workers: Workers
) -> None:
    given = {"type": "kills", "runAt": clock.now.isoformat()}
    few = await tasks.created(maxAttempts=2, **given)
    many = await tasks.created(maxAttempts=5, **given)
    [worker] = await workers(1)

    async def have_failed() -> bool:
        """Looks after the workers meanwhile, as whoever runs them does."""
        nonlocal worker
        if worker.exit_code is not None:
            [worker] = await workers(1)
        return all([await has_failed(tasks, each["id"]) for each in (few, many)])

    await eventually(have_failed, "both have failed", patience=60)
    other = await tasks.created(runAt=clock.now.isoformat())
    await tasks.becomes(other["id"], "DONE")
    assert worker.exit_code is None, "the last one has survived"
    for task, attempts in ((few, 2), (many, 3)):
        failed = await tasks.becomes(task["id"], "FAILED")
        assert (failed["attempt"], failed["error"]) == (attempts, LEASE_EXPIRED)
        tried = await tasks.attempts(task["id"])
        assert [each["attempt"] for each in tried] == list(range(1, attempts + 1))
        assert {(each["status"], each["error"]) for each in tried} == {("FAILED", LEASE_EXPIRED)}
        assert all(each["finishedAt"] for each in tried)


async def has_failed(tasks: Client, task_id: str) -> bool:
    return (await tasks.task(task_id))["status"] == "FAILED"
