"""Retries: by themselves with growing pauses, by hand with one call."""

from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.interval_jobs.client import Client, Json, instant
from tests.support.databases import Clock
from tests.support.waiting import eventually

ERROR = "ConnectionError: connection timeout"
BY_FORMULA = [60, 120, 240, 480, 960, 1920, 3600, 3600]


async def retries(api: Client, clock: Clock, job_id: Any, first: int = 1) -> list[float]:
    """Go from retry to retry until none is left; how long each one was waited for."""
    waits: list[float] = []
    while True:
        run = await api.ended(job_id, first + len(waits))
        job = await at_rest(api, job_id)
        assert run["retry_attempt"] == len(waits)
        if job["status"] == "failed":
            return waits
        assert job["current_retry_count"] == len(waits) + 1
        assert job["error_message"] == run["error_message"] == ERROR
        due = instant(job["next_run_at"])
        waits.append((due - instant(run["completed_at"])).total_seconds())
        await clock.set_to(due)


async def at_rest(api: Client, job_id: Any) -> Json:
    async def look() -> Json | None:
        job = await api.job(job_id)
        return None if job["status"] == "running" else job

    return await eventually(look, "the end of the run")


@pytest.mark.parametrize("words", [{}, {"interval_minutes": 3, "interval_type": "days"}])
async def test_a_failed_run_is_tried_again_after_60_120_and_240_seconds_then_the_job_is_failed(
    api: Client, clock: Clock, words: Any
) -> None:
    job = await api.create(kind="fails", **words)
    if words:
        await clock.advance(days=3)
    assert await retries(api, clock, job["id"]) == [60, 120, 240]
    runs = await api.executions(job["id"])
    assert [run["retry_attempt"] for run in runs] == [3, 2, 1, 0]
    assert {run["status"] for run in runs} == {"failed"}
    failed = await api.job(job["id"])
    assert (failed["status"], failed["error_message"]) == ("failed", ERROR)
    assert (failed["next_run_at"] is None) == (not words), "a recurring job keeps its next beat"


@pytest.mark.parametrize(
    ("words", "waits"),
    [
        ({"max_retries": 8}, BY_FORMULA),
        ({"max_retries": 3, "retry_backoff_seconds": 1000}, [1000, 2000, 3600]),
        ({"max_retries": 2, "retry_backoff_seconds": 5}, [5, 10]),
        ({"max_retries": 0}, []),
    ],
)
async def test_pauses_double_from_their_base_up_to_an_hour_as_often_as_the_job_says(
    api: Client, clock: Clock, words: Any, waits: list[int]
) -> None:
    job = await api.create(kind="fails", **words)
    assert await retries(api, clock, job["id"]) == waits


async def test_a_job_that_waits_for_its_retry_is_scheduled_and_not_run_earlier(
    api: Client, clock: Clock
) -> None:
    job = await api.create(kind="fails")
    await api.ended(job["id"])
    await api.becomes(job["id"], "scheduled")
    await clock.advance(seconds=59)
    other = await api.create(kind="works")
    await api.ended(other["id"])
    assert len(await api.executions(job["id"])) == 1
    await clock.advance(seconds=1)
    assert instant((await api.ended(job["id"], 2))["started_at"]) == clock.now


async def test_success_resets_the_counter_and_the_schedule_goes_on(
    api: Client, clock: Clock
) -> None:
    begin = clock.now
    job = await api.create(
        kind="fails", payload={"times": 1}, interval_minutes=1, interval_type="days"
    )
    await clock.advance(days=1)
    await api.ended(job["id"])
    await clock.advance(seconds=60)
    assert (await api.ended(job["id"], 2))["status"] == "completed"
    after = await api.becomes(job["id"], "scheduled")
    assert (after["current_retry_count"], after["error_message"]) == (0, None)
    assert instant(after["next_run_at"]) == begin + timedelta(days=2)


async def test_a_failed_recurring_job_is_cleared_by_the_success_of_its_next_run(
    api: Client, clock: Clock
) -> None:
    job = await api.create(kind="fails", max_retries=0, interval_minutes=30)
    await clock.advance(minutes=30)
    await api.becomes(job["id"], "failed")
    # The same job, mended.
    answer = await api.put(job["id"], kind="works", payload={})
    assert answer.status_code == 200, answer.text
    await clock.advance(minutes=30)
    assert (await api.ended(job["id"], 2))["status"] == "completed"
    assert (await api.becomes(job["id"], "scheduled"))["error_message"] is None


async def test_a_failed_job_is_retried_by_hand_with_its_attempts_counted_anew(
    api: Client, clock: Clock
) -> None:
    job = await api.create(kind="fails", max_retries=1)
    assert await retries(api, clock, job["id"]) == [60]
    await api.acted(job["id"], "retry")
    assert await retries(api, clock, job["id"], first=3) == [60]
    runs = await api.executions(job["id"])
    assert [run["retry_attempt"] for run in runs] == [1, 0, 1, 0]
    assert [run["execution_number"] for run in runs] == [4, 3, 2, 1]
