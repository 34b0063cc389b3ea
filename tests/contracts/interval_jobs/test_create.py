"""Creating jobs: intervals, jobs that run once, retries, metadata, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.interval_jobs.client import JOBS, PAGE, Client, instant
from tests.support.serving import assert_refused
from tests.support.waiting import eventually

# Every key of a job that its clients know, but the two that told the lock.
KEYS = [
    "id",
    "source_id",
    "source_name",
    "url",
    "type",
    "status",
    "created_at",
    "updated_at",
    "started_at",
    "completed_at",
    "error_message",
    "interval_minutes",
    "interval_type",
    "next_run_at",
    "is_paused",
    "paused_at",
    "cancelled_at",
    "max_retries",
    "retry_backoff_seconds",
    "current_retry_count",
    "metadata",
    "schedule_time",
    "schedule_enabled",
]
EXAMPLE = PAGE | {
    "interval_minutes": 30,
    "interval_type": "minutes",
    "schedule_enabled": True,
    "max_retries": 3,
    "retry_backoff_seconds": 60,
    "metadata": {"category": "news", "priority": "high"},
}


async def test_the_example_of_the_document_is_created_and_comes_back_as_it_was_sent(
    api: Client,
) -> None:
    job = await api.create(**EXAMPLE)
    found = await api.job(job["id"])
    for shown in (job, found):
        assert {name: shown[name] for name in EXAMPLE} == EXAMPLE
    assert (job["status"], job["type"], job["is_paused"]) == ("scheduled", "crawl", False)
    assert isinstance(job["retry_backoff_seconds"], int), "a client in Go reads nothing else"


async def test_every_documented_key_is_there_and_null_when_there_is_nothing_to_say(
    api: Client,
) -> None:
    job = await api.create(url="https://example.com")
    assert set(KEYS) <= set(job)
    nothing = ["source_id", "source_name", "interval_minutes", "interval_type", "schedule_time"]
    nothing += ["started_at", "completed_at", "error_message", "paused_at", "cancelled_at"]
    assert {name: job[name] for name in nothing} == dict.fromkeys(nothing)


@pytest.mark.parametrize(
    ("count", "unit", "period"),
    [
        (30, "minutes", timedelta(minutes=30)),
        (6, "hours", timedelta(hours=6)),
        (1, "days", timedelta(days=1)),
        (45, None, timedelta(minutes=45)),
    ],
)
async def test_a_job_runs_every_so_many_minutes_hours_or_days_first_after_one_interval(
    api: Client, count: int, unit: str | None, period: timedelta
) -> None:
    words = {"interval_minutes": count} | ({"interval_type": unit} if unit else {})
    job = await api.crawl(**words, schedule_enabled=True)
    assert job["status"] == "scheduled"
    assert instant(job["next_run_at"]) == instant(job["created_at"]) + period
    assert (job["interval_minutes"], job["interval_type"]) == (count, unit or "minutes")
    beats = (await api.job(job["id"]))["next"]
    assert instant(beats[1]) - instant(beats[0]) == period


@pytest.mark.parametrize("words", [{}, {"schedule_enabled": True}])
async def test_an_interval_counts_unless_it_is_switched_off(api: Client, words: Any) -> None:
    job = await api.crawl(interval_minutes=30, **words)
    assert (job["status"], job["schedule_enabled"]) == ("scheduled", True)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"schedule_enabled": False},
        {"schedule_enabled": False, "interval_minutes": 30},
        {"schedule_enabled": False, "schedule_time": "0 0 * * *"},
        {"interval_minutes": None, "schedule_time": None, "schedule_enabled": None},
    ],
)
async def test_a_job_whose_schedule_is_off_is_pending_and_due_at_once(
    api: Client, words: Any
) -> None:
    job = await api.crawl(**words)
    assert (job["status"], job["schedule_enabled"]) == ("pending", False)
    assert job["next_run_at"] == job["created_at"]
    assert job["interval_minutes"] == words.get("interval_minutes")


async def test_a_schedule_that_is_not_there_cannot_be_enabled(api: Client) -> None:
    assert_refused(await api.post(JOBS, PAGE | {"schedule_enabled": True}), "schedule_enabled")


async def test_three_retries_after_sixty_seconds_and_no_metadata_are_the_defaults(
    api: Client,
) -> None:
    job = await api.create(url="https://example.com")
    expected = {"max_retries": 3, "retry_backoff_seconds": 60, "current_retry_count": 0}
    assert {name: job[name] for name in expected} == expected
    assert job["metadata"] == {}


async def test_metadata_is_any_object_and_comes_back_unchanged(api: Client) -> None:
    metadata = {"priority": "high", "nested": {"list": [1, 2.5, None, {"ä": "ß"}]}, "": False}
    job = await api.crawl(metadata=metadata)
    assert (await api.job(job["id"]))["metadata"] == metadata


async def test_the_call_of_the_document_without_a_source_id_works(api: Client) -> None:
    words = {"interval_minutes": 30, "interval_type": "minutes", "schedule_enabled": True}
    job = await api.create(source_name="example.com", url="https://example.com", **words)
    assert (job["status"], job["source_id"]) == ("scheduled", None)


async def test_one_source_may_have_several_jobs(api: Client) -> None:
    first, second = await api.crawl(interval_minutes=5), await api.crawl(interval_minutes=10)
    assert first["id"] != second["id"]
    assert (await api.job(first["id"]))["interval_minutes"] == 5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("interval_minutes", value) for value in (0, -1, 1.5, "30", True, 10**12)),
        *(("interval_type", value) for value in ("weeks", "", "Minutes", 1)),
        *(("max_retries", value) for value in (-1, "3", 100)),
        *(("retry_backoff_seconds", value) for value in (-1, "60", 10**9)),
        *(("schedule_enabled", value) for value in ("yes", 1)),
        *(("schedule_time", value) for value in ("", "every day", "0 0 31 2 *", "61 * * * *")),
        *(
            ("url", value)
            for value in (None, "", "example.com", "file:///etc/passwd", "http://", 1)
        ),
        *(("source_name", value) for value in (1, ["a"], "a" * 2001)),
        *(("source_id", value) for value in (1, {}, "a" * 2001)),
        *(("metadata", value) for value in ("text", [1], 1)),
        *(("type", value) for value in (1, "")),
        ("lock_token", "01890000-0000-7000-8000-000000000000"),
    ],
)
async def test_what_cannot_work_is_refused_with_the_field_and_nothing_is_stored(
    api: Client, field: str, value: object
) -> None:
    before = (await api.get(JOBS)).json()["total"]
    schedule = {} if field == "schedule_time" else {"interval_minutes": 30}
    answer = await api.post(JOBS, PAGE | schedule | {field: value})
    assert_refused(answer, field)
    assert (await api.get(JOBS)).json()["total"] == before


@pytest.mark.parametrize(("count", "unit"), [(60, "hours"), (360, "hours"), (1440, "days")])
async def test_minutes_that_are_counted_in_hours_or_days_are_doubted(
    api: Client, count: int, unit: str
) -> None:
    job = await api.crawl(interval_minutes=count, interval_type=unit)
    assert any(f"counts {unit}" in warning for warning in job["warnings"])
    assert job["effective_period"]


async def test_minutes_are_taken_as_they_are(api: Client) -> None:
    job = await api.crawl(interval_minutes=1440, interval_type="minutes")
    assert job["warnings"] == []


async def test_who_has_the_lock_is_told_and_its_token_never(api: Client) -> None:
    job = await api.create(kind="hangs")
    running = await api.becomes(job["id"], "running")
    assert set(running["lease"]) == {"node", "since"}
    assert running["lease"]["node"]
    [run] = await api.executions(job["id"])
    listed = (await api.get(JOBS, status="running")).json()["jobs"]
    for shown in (job, running, run, *listed, await api.acted(job["id"], "cancel")):
        assert not [key for key in keys_of(shown) if "token" in key or "lock" in key]

    async def is_free() -> bool:
        return (await api.job(job["id"]))["lease"] is None

    await eventually(is_free, "the end of the run that was cancelled")


def keys_of(value: Any) -> list[str]:
    if isinstance(value, list):
        return [key for each in value for key in keys_of(each)]
    if not isinstance(value, dict):
        return []
    return [*value, *(key for each in value.values() for key in keys_of(each))]
