"""Running: at once, in rhythm, by cron, until it is cancelled, and no longer than it may."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.interval_jobs.client import JOBS, Client, instant
from tests.support.databases import Clock
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    "words", [{}, {"schedule_enabled": False}, {"schedule_enabled": False, "interval_minutes": 5}]
)
async def test_a_job_without_a_schedule_runs_at_once_once_and_is_completed(
    api: Client, clock: Clock, words: Any
) -> None:
    job = await api.create(kind="works", **words)
    await api.ended(job["id"])
    done = await api.becomes(job["id"], "completed")
    assert instant(done["completed_at"]) == instant(done["started_at"]) == clock.now
    assert done["next_run_at"] is None
    await clock.advance(hours=1)
    other = await api.create(kind="works")
    await api.ended(other["id"])
    assert len(await api.executions(job["id"])) == 1


async def test_a_recurring_job_keeps_its_exact_rhythm_however_late_it_runs(
    api: Client, clock: Clock
) -> None:
    begin = clock.now
    job = await api.create(kind="works", interval_minutes=1, interval_type="hours")
    for number, minutes_late in enumerate((0, 7, 59, 1), start=1):
        await clock.set_to(begin + number * HOUR + timedelta(minutes=minutes_late))
        run = await api.ended(job["id"], number)
        assert instant(run["beat_at"]) == begin + number * HOUR
        after = await api.becomes(job["id"], "scheduled")
        assert instant(after["next_run_at"]) == begin + (number + 1) * HOUR
        assert instant(after["completed_at"]) == clock.now


async def test_missed_runs_become_one_and_the_rhythm_goes_on(api: Client, clock: Clock) -> None:
    begin = clock.now
    job = await api.create(kind="works", interval_minutes=1, interval_type="hours")
    await clock.set_to(begin + 30 * HOUR + timedelta(minutes=10))
    await api.ended(job["id"])
    after = await api.becomes(job["id"], "scheduled")
    assert instant(after["next_run_at"]) == begin + 31 * HOUR
    runs = (await api.get(f"{JOBS}/{job['id']}/executions")).json()
    assert [run["status"] for run in runs["executions"]] == ["completed"]
    assert runs["total"] == 1


async def test_a_job_never_overlaps_itself(api: Client, clock: Clock) -> None:
    job = await api.create(kind="hangs", interval_minutes=1)
    await clock.advance(minutes=1)
    running = await api.becomes(job["id"], "running")
    assert (running["started_at"], running["completed_at"]) == (running["lease"]["since"], None)
    await clock.advance(minutes=5)
    other = await api.create(kind="works")
    await api.ended(other["id"])
    assert len(await api.executions(job["id"])) == 1
    await api.acted(job["id"], "cancel")


@pytest.mark.parametrize("words", [{}, {"interval_minutes": 1}])
async def test_cancel_stops_a_job_in_the_middle_and_it_never_comes_back(
    api: Client, clock: Clock, tmp_path: Path, words: Any
) -> None:
    mark = tmp_path / "stopped"
    job = await api.create(kind="hangs", payload={"mark": str(mark)}, max_retries=5, **words)
    await clock.advance(minutes=1)
    await api.becomes(job["id"], "running")
    assert not mark.exists()
    answer = await api.acted(job["id"], "cancel")
    assert (answer["status"], instant(answer["cancelled_at"])) == ("cancelled", clock.now)
    await eventually(mark.exists, "the handler is told to stop")
    run = await api.ended(job["id"])
    assert (run["status"], run["error_class"]) == ("cancelled", "cancelled")
    done = await api.becomes(job["id"], "cancelled")
    assert instant(done["cancelled_at"]) == clock.now
    assert (done["next_run_at"], done["current_retry_count"]) == (None, 0)
    await clock.advance(days=2)
    other = await api.create(kind="works")
    await api.ended(other["id"])
    assert await api.executions(job["id"]) == [run]
    assert (await api.job(job["id"]))["status"] == "cancelled"


async def test_a_deleted_job_is_stopped_too(api: Client, tmp_path: Path) -> None:
    mark = tmp_path / "stopped"
    job = await api.create(kind="hangs", payload={"mark": str(mark)})
    await api.becomes(job["id"], "running")
    assert (await api.http.delete(f"{JOBS}/{job['id']}")).status_code == 200
    await eventually(mark.exists, "the handler is told to stop")
    assert (await api.ended(job["id"]))["status"] == "cancelled"


async def test_a_run_ends_when_its_time_is_over(api: Client) -> None:
    job = await api.create(kind="hangs", timeout=1, max_retries=0)
    run = await api.ended(job["id"])
    assert (run["status"], run["error_class"]) == ("failed", "timeout")
    assert (await api.becomes(job["id"], "failed"))["error_message"] == run["error_message"]


@pytest.mark.parametrize(
    ("cron", "minutes"), [("0 * * * *", 60), ("0 0 * * *", 1440), ("0 */6 * * *", 360)]
)
async def test_a_cron_of_the_old_scheduler_runs_as_often_as_its_interval(
    api: Client, cron: str, minutes: int
) -> None:
    by_cron = await api.crawl(schedule_time=cron, schedule_enabled=True)
    by_interval = await api.crawl(interval_minutes=minutes)
    assert (by_cron["status"], by_cron["schedule_time"]) == ("scheduled", cron)
    assert by_cron["effective_period"] == by_interval["effective_period"]
    assert by_cron["warnings"] == []


async def test_a_job_with_a_schedule_time_runs_as_cron(api: Client, clock: Clock) -> None:
    job = await api.create(kind="works", schedule_time="15 8 * * MON")
    beat = instant(job["next_run_at"])
    assert (beat.weekday(), beat.hour, beat.minute, beat.second) == (0, 8, 15, 0)
    await clock.set_to(beat)
    run = await api.ended(job["id"])
    assert instant(run["beat_at"]) == beat
    after = await api.becomes(job["id"], "scheduled")
    assert instant(after["next_run_at"]) == beat + timedelta(days=7)


async def test_an_interval_wins_over_a_schedule_time_and_the_answer_says_so(
    api: Client, clock: Clock
) -> None:
    job = await api.crawl(interval_minutes=7, schedule_time="0 0 * * *")
    assert instant(job["next_run_at"]) == clock.now + timedelta(minutes=7)
    assert (job["interval_minutes"], job["schedule_time"]) == (7, "0 0 * * *")
    [warning] = job["warnings"]
    assert "schedule_time" in warning
    assert (await api.job(job["id"]))["warnings"] == [warning]
