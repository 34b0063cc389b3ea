"""The life of a task: it waits, runs, is tried again, is done, fails, or is canceled."""

from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.tasks.client import UNKNOWN, Client, instant, invalid_fields, problem_of
from tests.support.databases import Clock
from tests.support.waiting import eventually

JOBS = "/api/v1/jobs"
REFUSED = "ConnectionError: connection refused"


async def test_a_task_waits_until_run_at_and_is_then_done(tasks: Client, clock: Clock) -> None:
    run_at = clock.now + timedelta(minutes=5)
    task = await tasks.created(runAt=run_at.isoformat())
    await clock.advance(minutes=4)
    other = await tasks.created(runAt=clock.now.isoformat())
    await tasks.becomes(other["id"], "DONE")
    assert (await tasks.task(task["id"]))["status"] == "PENDING"
    assert await tasks.attempts(task["id"]) == []
    await clock.set_to(run_at)
    done = await tasks.becomes(task["id"], "DONE")
    assert (done["attempt"], done["error"], instant(done["runAt"])) == (1, None, run_at)
    [attempt] = await tasks.attempts(task["id"])
    assert list(attempt) == ["id", "attempt", "status", "startedAt", "finishedAt", "error"]
    assert type(attempt["id"]) is int
    assert (attempt["attempt"], attempt["status"], attempt["error"]) == (1, "SUCCESS", None)
    assert instant(attempt["startedAt"]) == instant(attempt["finishedAt"]) == run_at


async def test_a_task_that_runs_is_running_and_its_attempt_is_started(
    tasks: Client, clock: Clock
) -> None:
    task = await tasks.created(type="hangs", runAt=clock.now.isoformat())
    running = await tasks.becomes(task["id"], "RUNNING")
    assert (running["attempt"], running["error"]) == (1, None)
    [attempt] = await tasks.attempts(task["id"])
    assert (attempt["status"], attempt["finishedAt"], attempt["error"]) == ("STARTED", None, None)
    await tasks.http.post(f"{JOBS}/{task['id']}/cancel")
    await tasks.becomes(task["id"], "CANCELED")
    [attempt] = await tasks.attempts(task["id"])
    assert (attempt["status"], attempt["finishedAt"] is None) == ("CANCELED", False)


async def test_a_run_that_was_put_off_is_no_attempt(tasks: Client, clock: Clock) -> None:
    task = await tasks.created(type="puts_off", runAt=clock.now.isoformat())
    again_at = clock.now + timedelta(minutes=1)

    async def is_put_off() -> bool:
        return instant((await tasks.task(task["id"]))["runAt"]) == again_at

    await eventually(is_put_off)
    assert await tasks.attempts(task["id"]) == []
    await clock.set_to(again_at)
    await tasks.becomes(task["id"], "DONE")
    [attempt] = await tasks.attempts(task["id"])
    assert (attempt["attempt"], attempt["status"]) == (1, "SUCCESS")


async def test_a_failure_is_tried_again_after_attempt_times_five_seconds_until_none_is_left(
    tasks: Client, clock: Clock
) -> None:
    task = await tasks.created(type="fails", runAt=clock.now.isoformat(), maxAttempts=4)
    starts = [clock.now]
    for attempt in (1, 2, 3):
        waiting = await tasks.becomes(task["id"], "PENDING", attempt=attempt)
        again_at = clock.now + timedelta(seconds=5 * attempt)
        assert (waiting["error"], instant(waiting["runAt"])) == (REFUSED, again_at)
        await clock.set_to(again_at)
        starts.append(again_at)
    failed = await tasks.becomes(task["id"], "FAILED")
    assert (failed["attempt"], failed["maxAttempts"], failed["error"]) == (4, 4, REFUSED)
    attempts = await tasks.attempts(task["id"])
    assert [each["attempt"] for each in attempts] == [1, 2, 3, 4]
    assert {(each["status"], each["error"]) for each in attempts} == {("FAILED", REFUSED)}
    assert [instant(each["startedAt"]) for each in attempts] == starts
    assert [instant(each["finishedAt"]) for each in attempts] == starts
    assert sorted(each["id"] for each in attempts) == [each["id"] for each in attempts]
    await clock.advance(hours=1)
    other = await tasks.created(runAt=clock.now.isoformat())
    await tasks.becomes(other["id"], "DONE")
    assert await tasks.attempts(task["id"]) == attempts


async def test_a_task_that_works_at_last_is_done_and_has_no_error(
    tasks: Client, clock: Clock
) -> None:
    now = clock.now.isoformat()
    task = await tasks.created(type="fails", payload={"times": 1}, runAt=now)
    await tasks.becomes(task["id"], "PENDING", attempt=1)
    await clock.advance(seconds=5)
    done = await tasks.becomes(task["id"], "DONE")
    assert (done["attempt"], done["error"]) == (2, None)
    attempts = await tasks.attempts(task["id"])
    assert [each["status"] for each in attempts] == ["FAILED", "SUCCESS"]


async def test_one_attempt_is_no_retry(tasks: Client, clock: Clock) -> None:
    task = await tasks.created(type="fails", runAt=clock.now.isoformat(), maxAttempts=1)
    assert (await tasks.becomes(task["id"], "FAILED"))["attempt"] == 1


async def test_a_pending_task_can_be_canceled_and_never_runs(tasks: Client, clock: Clock) -> None:
    run_at = clock.now + timedelta(minutes=1)
    task = await tasks.created(runAt=run_at.isoformat())
    answer = await tasks.cancel(task["id"])
    assert (answer.status_code, answer.content) == (204, b"")
    canceled = await tasks.task(task["id"])
    assert (canceled["status"], instant(canceled["runAt"])) == ("CANCELED", run_at)
    await clock.set_to(run_at)
    other = await tasks.created(runAt=run_at.isoformat())
    await tasks.becomes(other["id"], "DONE")
    assert await tasks.attempts(task["id"]) == []
    assert (await tasks.task(task["id"]))["status"] == "CANCELED"


async def test_a_task_that_waits_to_be_tried_again_can_be_canceled(
    tasks: Client, clock: Clock
) -> None:
    task = await tasks.created(type="fails", runAt=clock.now.isoformat())
    await tasks.becomes(task["id"], "PENDING", attempt=1)
    assert (await tasks.cancel(task["id"])).status_code == 204
    await clock.advance(minutes=1)
    other = await tasks.created(runAt=clock.now.isoformat())
    await tasks.becomes(other["id"], "DONE")
    assert len(await tasks.attempts(task["id"])) == 1


@pytest.mark.parametrize(
    ("status", "given"),
    [("RUNNING", {"type": "hangs"}), ("DONE", {}), ("FAILED", {"type": "fails", "maxAttempts": 1})],
)
async def test_a_task_in_any_other_status_cannot_be_canceled(
    tasks: Client, clock: Clock, status: str, given: dict[str, Any]
) -> None:
    task = await tasks.created(runAt=clock.now.isoformat(), **given)
    before = await tasks.becomes(task["id"], status)
    problem = problem_of(await tasks.cancel(task["id"]), 409)
    told = f"Task is not cancelable in status: {status}"
    assert (problem["title"], problem["detail"]) == ("Conflict", told)
    assert await tasks.task(task["id"]) == before
    if status == "RUNNING":
        await tasks.http.post(f"{JOBS}/{task['id']}/cancel")
        await tasks.becomes(task["id"], "CANCELED")


async def test_a_task_is_canceled_once(tasks: Client) -> None:
    task = await tasks.created()
    assert (await tasks.cancel(task["id"])).status_code == 204
    detail = problem_of(await tasks.cancel(task["id"]), 409)["detail"]
    assert detail == "Task is not cancelable in status: CANCELED"


async def test_only_a_task_that_is_there_can_be_canceled(tasks: Client) -> None:
    assert problem_of(await tasks.cancel(UNKNOWN), 404)["detail"] == f"Task not found: {UNKNOWN}"
    assert invalid_fields(await tasks.cancel("not-an-id")) == {"id"}
