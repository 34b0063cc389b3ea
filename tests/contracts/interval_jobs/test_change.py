"""Changing and deleting jobs: what is named changes, and nothing else."""

from typing import Any

import pytest

from tests.contracts.interval_jobs.client import JOBS, UNKNOWN, Client, instant
from tests.support.serving import assert_problem, assert_refused

# These follow from a change, or tell of it.
MOVING = {"version", "updated_at"}


async def changed(api: Client, job_id: Any, **changes: Any) -> dict[str, Any]:
    answer = await api.put(job_id, **changes)
    assert answer.status_code == 200, answer.text
    return answer.json()


def difference(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name in before if before[name] != after[name]} - MOVING


@pytest.mark.parametrize(
    "written",
    [
        {"interval_minutes": 60},
        {"interval_minutes": 30, "schedule_enabled": False},
        {"interval_minutes": 30, "schedule_time": "0 0 * * *"},
        {"schedule_time": "*/5 * * * *"},
        {},
    ],
)
async def test_the_retries_of_the_document_are_changed_and_nothing_else(
    api: Client, written: Any
) -> None:
    job = await api.crawl(**written, metadata={"a": 1})
    after = await changed(api, job["id"], max_retries=5, retry_backoff_seconds=120)
    assert (after["max_retries"], after["retry_backoff_seconds"]) == (5, 120)
    expected = {"max_retries", "max_attempts", "retry_backoff_seconds", "backoff"}
    assert difference(job, after) == expected
    assert difference(after, await api.job(job["id"])) == set()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "https://example.org/"),
        ("source_id", "other"),
        ("source_name", "other.example"),
        ("metadata", {"b": [2]}),
        ("max_retries", 0),
        ("retry_backoff_seconds", 0),
    ],
)
async def test_every_field_of_a_job_can_be_changed_alone(
    api: Client, field: str, value: object
) -> None:
    job = await api.crawl(interval_minutes=30, metadata={"a": 1})
    after = await changed(api, job["id"], **{field: value})
    assert after[field] == value
    ours = {"max_retries": "max_attempts", "retry_backoff_seconds": "backoff"}
    assert difference(job, after) == {field, ours.get(field, "payload")}


async def test_another_interval_is_counted_from_its_change_on(api: Client) -> None:
    job = await api.crawl(interval_minutes=30)
    after = await changed(api, job["id"], interval_minutes=2, interval_type="hours")
    assert (after["interval_minutes"], after["interval_type"]) == (2, "hours")
    beats = [instant(beat) for beat in (await api.job(job["id"]))["next"]]
    assert (beats[1] - beats[0]).total_seconds() == 2 * 3600
    assert 0 < (beats[0] - instant(after["updated_at"])).total_seconds() <= 2 * 3600


async def test_a_job_that_runs_once_keeps_doing_so_until_its_schedule_is_enabled(
    api: Client,
) -> None:
    job = await api.crawl(interval_minutes=30, schedule_enabled=False)
    after = await changed(api, job["id"], interval_minutes=20)
    assert (after["status"], after["interval_minutes"]) == ("pending", 20)
    after = await changed(api, job["id"], schedule_enabled=True)
    assert (after["status"], after["schedule_enabled"]) == ("scheduled", True)


async def test_a_schedule_is_switched_off_and_on_again(api: Client) -> None:
    job = await api.crawl(interval_minutes=30)
    assert (await changed(api, job["id"], schedule_enabled=True))["status"] == "scheduled"
    off = await changed(api, job["id"], schedule_enabled=False)
    assert (off["status"], off["schedule_enabled"]) == ("disabled", False)
    assert (await changed(api, job["id"], interval_minutes=10))["status"] == "disabled"
    again = await changed(api, job["id"], schedule_enabled=True)
    assert (again["status"], again["schedule_enabled"]) == ("scheduled", True)
    assert again["interval_minutes"] == 10


@pytest.mark.parametrize("kind", ["crawl", "works"])
async def test_a_job_may_be_sent_back_as_it_was_got(api: Client, kind: str) -> None:
    if kind == "crawl":
        job = await api.crawl(interval_minutes=30, metadata={"a": 1}, max_retries=1)
    else:
        job = await api.create(kind=kind, schedule_time="0 0 * * *")
    whole = await api.job(job["id"])
    assert (await changed(api, job["id"], **whole))["version"] == job["version"]
    after = await changed(api, job["id"], **whole | {"max_retries": 7})
    assert difference(job, after) == {"max_retries", "max_attempts"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "completed"),
        ("is_paused", True),
        ("next_run_at", "2031-01-01T00:00:00Z"),
        ("current_retry_count", 2),
        ("id", UNKNOWN),
        ("created_at", None),
        ("lock_token", None),
        ("no_such_field", 1),
        ("max_retries", -1),
        ("interval_minutes", 0),
        ("interval_type", "weeks"),
        ("schedule_time", "never"),
        ("url", "nowhere"),
    ],
)
async def test_what_may_not_be_changed_is_refused_with_the_field(
    api: Client, field: str, value: object
) -> None:
    # An interval would win over a schedule_time, however bad.
    written = {} if field == "schedule_time" else {"interval_minutes": 30}
    job = await api.crawl(**written)
    before = await api.job(job["id"])
    assert_refused(await api.put(job["id"], **{"max_retries": 9, field: value}), field)
    assert await api.job(job["id"]) == before, "nothing of it was done"


async def test_a_deleted_job_is_gone_and_its_executions_can_still_be_read(api: Client) -> None:
    job = await api.create(kind="works")
    run = await api.ended(job["id"])
    answer = await api.http.delete(f"{JOBS}/{job['id']}")
    assert answer.status_code == 200
    assert answer.json() == {"message": "Job deleted successfully"}
    for answer in (
        await api.get(f"{JOBS}/{job['id']}"),
        await api.http.delete(f"{JOBS}/{job['id']}"),
        await api.put(job["id"], max_retries=1),
        await api.act(job["id"], "retry"),
    ):
        assert_problem(answer, 404)
    assert (await api.get(f"/api/v1/executions/{run['id']}")).json() == run
    assert await api.executions(job["id"]) == [run]
