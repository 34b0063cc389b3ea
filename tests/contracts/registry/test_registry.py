"""Jobs of the registry: schedules, next runs, retries, history, and the three statuses."""

from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.interval_jobs.client import instant
from tests.contracts.registry.client import JOBS, STATS, Client
from tests.support.databases import Clock
from tests.support.serving import assert_refused

INTERVAL = {"schedule_type": "interval", "interval_seconds": 1800}
# The clock begins on Tuesday 2030-01-01 at 12:00, and later tests may find it a little later.
NEXT = {
    "hourly at :30": ({"schedule_type": "hourly", "schedule_minute": 30}, "2030-01-01T12:30"),
    "daily, today still": (
        {"schedule_type": "daily", "schedule_hour": 23, "schedule_minute": 30},
        "2030-01-01T23:30",
    ),
    "daily, tomorrow": ({"schedule_type": "daily", "schedule_hour": 6}, "2030-01-02T06:00"),
    "daily, in a zone": (
        {"schedule_type": "daily", "schedule_hour": 6, "zone": "Europe/Berlin"},
        "2030-01-02T05:00",
    ),
    "weekly on Sunday": (
        {"schedule_type": "weekly", "schedule_day_of_week": 0, "schedule_hour": 2},
        "2030-01-06T02:00",
    ),
    "weekly, today still": (
        {"schedule_type": "weekly", "schedule_day_of_week": 2, "schedule_hour": 23},
        "2030-01-01T23:00",
    ),
}


@pytest.mark.parametrize(("row", "expected"), NEXT.values(), ids=NEXT)
async def test_the_next_run_follows_from_the_schedule(
    api: Client, row: dict[str, Any], expected: str
) -> None:
    job = await api.create(kind="work", schedule=row)
    assert instant(job["next_run_at"]) == instant(f"{expected}:00Z")


async def test_an_interval_adds_its_seconds(api: Client, clock: Clock) -> None:
    job = await api.create(kind="work", schedule=INTERVAL)
    assert instant(job["next_run_at"]) <= clock.now + timedelta(seconds=1800)
    first, second, *_ = (await api.job(job["id"]))["next"]
    assert instant(second) - instant(first) == timedelta(seconds=1800)


async def test_a_row_of_the_registry_is_read_with_all_its_columns(api: Client) -> None:
    row = {
        "schedule_type": "hourly",
        "interval_seconds": 0,
        "schedule_hour": -1,
        "schedule_minute": 15,
        "schedule_day_of_week": -1,
    }
    job = await api.create(kind="work", schedule=row)
    assert job["schedule"] == {"hourly": ":15", "zone": "UTC"}


async def test_an_unknown_schedule_type_is_refused(api: Client) -> None:
    row = {"schedule_type": "fortnightly"}
    answer = await api.http.post(JOBS, json={"kind": "work", "schedule": row})
    assert "interval, hourly, daily, weekly" in assert_refused(answer, "schedule.schedule_type")


async def test_names_are_unique(api: Client) -> None:
    await api.register("unique", INTERVAL)
    answer = await api.http.post(JOBS, json={"kind": "work", "name": "unique"})
    assert answer.status_code == 409


async def test_a_run_tells_its_result_duration_and_attempt(api: Client) -> None:
    run = await api.execute(await api.register("told", INTERVAL))
    assert (run["status"], run["result"], run["attempt"]) == ("completed", "done", 1)
    assert run["duration_ms"] >= 0
    assert instant(run["completed_at"]) >= instant(run["started_at"])


async def test_the_next_run_is_calculated_anew_after_each(api: Client, clock: Clock) -> None:
    job = await api.register("again", INTERVAL)
    due = await clock.set_to(instant(job["next_run_at"]))
    await api.ended(job["id"])
    shown = await api.becomes(job["id"], "scheduled")
    assert instant(shown["next_run_at"]) == due + timedelta(seconds=1800)
    assert instant(shown["started_at"]) == due


async def test_instants_are_iso_texts_that_sort_as_they_follow(api: Client) -> None:
    beats: list[str] = (await api.job((await api.register("iso", INTERVAL))["id"]))["next"]
    assert beats == sorted(beats)
    assert [instant(beat) for beat in beats] == sorted(map(instant, beats))


async def test_failed_runs_wait_2_4_8_16_seconds(api: Client, clock: Clock) -> None:
    payload = {"fails": 4}
    job = await api.register("backoff", INTERVAL, max_attempts=5, payload=payload)
    await api.execute(job)
    waits: list[float] = []
    for number in range(2, 6):
        retry_at = instant((await api.job(job["id"]))["next_retry_at"])
        waits.append((retry_at - clock.now).total_seconds())
        await clock.set_to(retry_at)
        run = await api.ended(job["id"], number)
    assert waits == [2, 4, 8, 16]
    assert (run["status"], run["attempt"]) == ("completed", 5)
    shown = await api.job(job["id"])
    assert (shown["next_retry_at"], shown["failure_streak"]) == (None, 0), "success clears it"
    assert await api.letters(job_name="backoff") == []


async def test_every_attempt_is_in_the_history_with_its_error(api: Client, clock: Clock) -> None:
    job = await api.register("errors", INTERVAL, payload={"fails": 1})
    await api.execute(job)
    await clock.advance(seconds=2)
    await api.ended(job["id"], 2)
    last, first = await api.executions(job["id"])
    assert (first["status"], first["attempt"], last["attempt"]) == ("failed", 1, 2)
    assert "no answer from 'db-1'" in first["error_message"]
    assert (last["status"], last["error_message"]) == ("completed", None)


async def test_a_paused_job_skips_its_runs_and_keeps_its_schedule(
    api: Client, clock: Clock
) -> None:
    job = await api.register("paused", INTERVAL)
    paused = await api.acted(job["id"], "pause")
    assert (paused["status"], paused["schedule"]) == ("paused", job["schedule"])
    await clock.advance(hours=2)
    other = await api.register("meanwhile", INTERVAL)
    await api.execute(other)
    assert await api.executions(job["id"]) == []
    resumed = await api.acted(job["id"], "resume")
    assert instant(resumed["next_run_at"]) > clock.now


async def test_a_disabled_job_must_be_enabled(api: Client) -> None:
    job = await api.register("decommissioned", INTERVAL)
    await api.acted(job["id"], "disable")
    refused = await api.act(job["id"], "resume")
    assert refused.status_code == 409
    assert "enable" in refused.json()["detail"]
    assert (await api.acted(job["id"], "enable"))["status"] == "scheduled"


async def test_a_change_of_status_is_immediate_and_counted(api: Client) -> None:
    before = (await api.fetch(STATS))["activity"]
    job = await api.register("switched", INTERVAL)
    counts: list[dict[str, int]] = []
    for action in ("pause", "disable", "enable", "cancel"):
        await api.acted(job["id"], action)
        after = (await api.fetch(STATS))["activity"]
        counts.append({word: after[word] - before[word] for word in after})
    assert counts == [
        {"active": 0, "paused": 1, "disabled": 0},
        {"active": 0, "paused": 0, "disabled": 1},
        {"active": 1, "paused": 0, "disabled": 0},
        {"active": 0, "paused": 0, "disabled": 1},
    ]
