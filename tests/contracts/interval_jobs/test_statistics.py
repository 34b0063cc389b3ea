"""Statistics: of a job, and of the whole scheduler, the same from whichever process one asks."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.contracts.interval_jobs.client import JOBS, UNKNOWN, Client, Json, instant, token
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.serving import assert_problem
from tests.support.waiting import eventually

# What it says of now differs from call to call.
CLOCKS = ("last_check_at", "last_metrics_update")


@pytest.fixture(scope="module")
def other_server(start: Callable[..., Process]) -> str:
    """A second process that only answers: it runs nothing itself."""
    return asyncio.run(start("server").ready())


@pytest.fixture
async def other(other_server: str) -> AsyncIterator[Client]:
    client = Client(other_server, token())
    yield client
    await client.http.aclose()


async def stats(api: Client, job_id: Any) -> Json:
    answer = await api.get(f"{JOBS}/{job_id}/stats")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_job_that_never_ran_has_nothing_to_count(api: Client) -> None:
    job = await api.crawl(interval_minutes=30)
    assert await stats(api, job["id"]) == {
        "total_executions": 0,
        "successful_runs": 0,
        "failed_runs": 0,
        "cancelled_runs": 0,
        "average_duration_ms": None,
        "p50_duration_ms": None,
        "p95_duration_ms": None,
        "p99_duration_ms": None,
        "longest_duration_ms": None,
        "last_execution_at": None,
        "next_scheduled_at": job["next_run_at"],
        "success_rate": None,
        "dead_letters": {"total": 0, "unacknowledged": 0},
    }


async def test_the_runs_of_a_job_are_counted_by_how_they_ended(api: Client, clock: Clock) -> None:
    job = await api.create(kind="fails", payload={"times": 1}, interval_minutes=30, max_retries=1)
    await clock.advance(minutes=30)
    await api.ended(job["id"], 1)
    await clock.advance(minutes=1)
    last = await api.ended(job["id"], 2)
    after = await api.becomes(job["id"], "scheduled")
    counted = await stats(api, job["id"])
    expected = {
        "total_executions": 2,
        "successful_runs": 1,
        "failed_runs": 1,
        "success_rate": 0.5,
        "last_execution_at": last["started_at"],
        "next_scheduled_at": after["next_run_at"],
    }
    assert {name: counted[name] for name in expected} == expected
    assert isinstance(counted["average_duration_ms"], int)


async def test_a_run_counts_from_its_start_and_a_cancelled_one_is_no_failure(api: Client) -> None:
    job = await api.create(kind="hangs")
    await api.becomes(job["id"], "running")
    counted = await stats(api, job["id"])
    assert (counted["total_executions"], counted["success_rate"]) == (1, None)
    await api.acted(job["id"], "cancel")
    await api.becomes(job["id"], "cancelled")
    counted = await stats(api, job["id"])
    assert (counted["total_executions"], counted["failed_runs"]) == (1, 0)
    assert counted["success_rate"] is None


async def test_there_are_no_statistics_of_a_job_that_is_not_there(api: Client) -> None:
    assert_problem(await api.get(f"{JOBS}/{UNKNOWN}/stats"), 404)


def growth(before: Json, after: Json) -> Json:
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


async def test_jobs_are_counted_by_what_they_are_now_and_runs_by_how_they_ended(
    api: Client, other: Client
) -> None:
    before = await api.metrics()
    for _ in range(2):
        await api.crawl(interval_minutes=30)
    await api.acted((await api.crawl())["id"], "cancel")
    hanging = await api.create(kind="hangs")
    await api.becomes(hanging["id"], "running")
    for kind, status in (("works", "completed"), ("works", "completed"), ("fails", "failed")):
        job = await api.create(kind=kind, max_retries=0)
        await api.becomes(job["id"], status)
    after = await api.metrics()
    expected = {"scheduled": 2, "cancelled": 1, "running": 1, "completed": 2, "failed": 1}
    assert growth(before["jobs"], after["jobs"]) == expected
    assert after["executions"]["total"] - before["executions"]["total"] == 4
    elsewhere = await other.metrics()
    for metrics in (after, elsewhere):
        for name in CLOCKS:
            assert instant(metrics.pop(name))
    assert elsewhere == after, "all processes tell the same"
    await api.acted(hanging["id"], "cancel")
    await api.becomes(hanging["id"], "cancelled")
    again = await api.metrics()
    assert growth(after["jobs"], again["jobs"]) == {"running": -1, "cancelled": 1}


async def test_the_rate_of_success_is_of_the_runs_that_ended_well_or_badly(api: Client) -> None:
    overall = (await api.get("/api/v1/stats")).json()["runs"]
    ended = overall["completed"] + overall["failed"]
    metrics = (await api.metrics())["executions"]
    assert metrics["success_rate"] == (overall["completed"] / ended if ended else None)
    assert set(metrics) == {"total", "average_duration_ms", "success_rate"}


async def test_the_last_check_moves_while_somebody_polls(api: Client) -> None:
    before = instant((await api.metrics())["last_check_at"])

    async def has_moved() -> bool:
        return instant((await api.metrics())["last_check_at"]) > before

    await eventually(has_moved, "a later last_check_at")


async def test_every_state_has_its_count_even_if_it_is_none(api: Client) -> None:
    metrics = await api.metrics()
    states = {"pending", "scheduled", "running", "paused", "completed", "failed", "cancelled"}
    assert states <= metrics["jobs"].keys()
    assert isinstance(metrics["stale_locks_cleared"], int)
