"""Execution history: every run, numbered, with its timing, results and errors."""

from typing import Any
from uuid import UUID

import pytest

from tests.contracts.interval_jobs.client import JOBS, UNKNOWN, Client, Json, instant
from tests.support.databases import Clock
from tests.support.serving import assert_problem, assert_refused

EXECUTIONS = "/api/v1/executions"


async def page(api: Client, job_id: Any, **query: object) -> Json:
    answer = await api.get(f"{JOBS}/{job_id}/executions", **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ran(api: Client, clock: Clock, times: int) -> Json:
    """A job that has run so often."""
    job = await api.create(kind="works", interval_minutes=30)
    for number in range(1, times + 1):
        await clock.advance(minutes=30)
        await api.ended(job["id"], number)
    return job


async def test_an_execution_tells_when_it_ran_and_what_came_of_it(
    api: Client, clock: Clock
) -> None:
    payload = {"crawled": 25, "indexed": 23}
    job = await api.create(kind="works", payload=payload)
    run = await api.ended(job["id"])
    assert UUID(run["id"])
    expected = {
        "job_id": job["id"],
        "execution_number": 1,
        "status": "completed",
        "items_crawled": 25,
        "items_indexed": 23,
        "error_message": None,
        "stack_trace": None,
        "retry_attempt": 0,
        "metadata": {},
    }
    assert {name: run[name] for name in expected} == expected
    assert instant(run["started_at"]) == instant(run["completed_at"]) == clock.now
    assert isinstance(run["duration_ms"], int)
    assert run["duration_ms"] >= 0
    assert {"cpu_time_ms", "memory_peak_mb"} <= run.keys()


async def test_a_failed_execution_tells_its_error_and_its_stack_trace(api: Client) -> None:
    job = await api.create(kind="fails", max_retries=0)
    run = await api.ended(job["id"])
    assert run["status"] == "failed"
    assert "connection timeout" in run["error_message"]
    assert "Traceback" in run["stack_trace"]
    assert (run["items_crawled"], run["items_indexed"]) == (0, 0)


async def test_an_execution_is_seen_while_it_runs(api: Client) -> None:
    job = await api.create(kind="hangs")
    await api.becomes(job["id"], "running")
    [run] = (await page(api, job["id"]))["executions"]
    assert (run["status"], run["execution_number"]) == ("running", 1)
    assert (run["completed_at"], run["duration_ms"]) == (None, None)
    assert (await api.get(f"{EXECUTIONS}/{run['id']}")).json() == run
    await api.acted(job["id"], "cancel")
    ended = await api.ended(job["id"])
    assert (ended["id"], ended["status"]) == (run["id"], "cancelled")


async def test_executions_come_newest_first_page_by_page_with_their_total(
    api: Client, clock: Clock
) -> None:
    job = await ran(api, clock, 4)
    whole = await page(api, job["id"])
    assert (whole["total"], whole["limit"], whole["offset"]) == (4, 50, 0)
    assert [run["execution_number"] for run in whole["executions"]] == [4, 3, 2, 1]
    started = [run["started_at"] for run in whole["executions"]]
    assert started == sorted(started, reverse=True)
    part = await page(api, job["id"], limit=2, offset=1)
    assert (part["total"], part["limit"], part["offset"]) == (4, 2, 1)
    assert part["executions"] == whole["executions"][1:3]
    assert (await page(api, job["id"], offset=4))["executions"] == []


async def test_an_execution_is_found_by_its_id(api: Client, clock: Clock) -> None:
    job = await ran(api, clock, 2)
    for run in await api.executions(job["id"]):
        assert (await api.get(f"{EXECUTIONS}/{run['id']}")).json() == run


async def test_a_job_that_never_ran_has_an_empty_history(api: Client) -> None:
    job = await api.crawl()
    assert await page(api, job["id"]) == {"executions": [], "total": 0, "limit": 50, "offset": 0}


async def test_history_of_nothing_is_not_found(api: Client) -> None:
    assert_problem(await api.get(f"{JOBS}/{UNKNOWN}/executions"), 404)
    assert_problem(await api.get(f"{EXECUTIONS}/{UNKNOWN}"), 404)
    job = await api.create(kind="works")
    run = await api.ended(job["id"])
    assert_problem(await api.get(f"{EXECUTIONS}/{job['id']}"), 404)
    unborn = f"{run['id'][:-12]}{int(run['id'][-12:], 16) + 10**9:012x}"
    assert_problem(await api.get(f"{EXECUTIONS}/{unborn}"), 404)


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", 0), ("limit", 251), ("limit", "many"), ("offset", -1), ("offset", "x")],
)
async def test_a_page_that_cannot_be_is_refused(api: Client, name: str, value: object) -> None:
    job = await api.crawl()
    assert_refused(await api.get(f"{JOBS}/{job['id']}/executions", **{name: value}), name)


@pytest.mark.parametrize("limit", [1, 250])
async def test_a_page_has_up_to_250_executions(api: Client, limit: int) -> None:
    job = await api.crawl()
    assert (await page(api, job["id"], limit=limit))["limit"] == limit
