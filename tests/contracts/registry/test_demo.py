"""The registry's demo from its first line to its last, as one test; the clock stands or is set."""

from pathlib import Path
from typing import Any

from tests.contracts.registry.client import GROUPS, JOBS, LETTERS, STATS, Client, Json
from tests.contracts.registry.workers import open_gate
from tests.support.databases import Clock


async def test_the_demo(api: Client, clock: Clock, tmp_path: Path) -> None:
    jobs = await register(api)
    for job in jobs.values():
        assert (await api.execute(job))["status"] == "completed"
    await retry_with_backoff(api, clock, jobs["hourly-sync"])
    await run_out_of_attempts(api, clock, jobs["cleanup-task"])
    later = await fill_the_group(api, tmp_path / "gate", jobs["daily-report"])
    await look_at_history(api, [*jobs.values(), later])
    await pause_and_disable(api, jobs)
    await acknowledge(api)
    await look_at_statistics(api)


async def register(api: Client) -> dict[str, Json]:
    """Daily, hourly, interval and weekly, with S5's own words for a schedule."""
    reports = {"group": "reports", "limits": {"max_running": 2}}
    rows: dict[str, tuple[Json, Json]] = {
        "daily-report": (
            {"schedule_type": "daily", "schedule_hour": 6, "schedule_minute": 0},
            reports,
        ),
        "hourly-sync": ({"schedule_type": "hourly", "schedule_minute": 30}, {}),
        "health-check": ({"schedule_type": "interval", "interval_seconds": 1800}, {}),
        "weekly-backup": (
            {"schedule_type": "weekly", "schedule_day_of_week": 0, "schedule_hour": 2},
            {},
        ),
        "cleanup-task": (
            {"schedule_type": "daily", "schedule_hour": 3},
            {"max_attempts": 2},
        ),
    }
    return {name: await api.register(name, row, **more) for name, (row, more) in rows.items()}


async def retry_with_backoff(api: Client, clock: Clock, job: Json) -> None:
    """Fails twice, after 2 s and 4 s, and succeeds at the third attempt."""
    await api.put(job["id"], payload={"fails": 2})
    first = await api.execute(job, 2)
    for number, wait in ((3, 2), (4, 4)):
        shown = await api.job(job["id"])
        assert shown["next_retry_at"] is not None
        await clock.advance(seconds=wait)
        last = await api.ended(job["id"], number)
    assert (first["status"], first["attempt"]) == ("failed", 1)
    assert (last["status"], last["attempt"]) == ("completed", 3)
    shown = await api.job(job["id"])
    assert (shown["failure_streak"], shown["error_message"], shown["next_retry_at"]) == (
        *(0, None, None),
    )


async def run_out_of_attempts(api: Client, clock: Clock, job: Json) -> None:
    await api.put(job["id"], payload={"fails": 99})
    await api.execute(job, 2)
    assert await api.letters() == [], "an attempt is left"
    await clock.advance(seconds=2)
    await api.ended(job["id"], 3)
    [letter] = await api.letters()
    assert (letter["job_name"], letter["kind"], letter["attempts"]) == ("cleanup-task", "work", 2)
    assert (letter["payload"], letter["acknowledged"]) == ({"fails": 99}, False)
    assert "no answer from 'db-2' after 2 s" in letter["last_error"]


async def fill_the_group(api: Client, gate: Path, third: Json) -> Json:
    """Two of two places are taken; the third is blocked, reported so, and has no run."""
    more: dict[str, Any] = {"kind": "report", "payload": {"gate": str(gate)}, "group": "reports"}
    first = await api.register("report-a", "every 1h", **more)
    second = await api.register("report-b", "every 1h", **more)
    for job in (first, second):
        assert (await api.act(job["id"], "run")).status_code == 202
    await api.in_group("reports", running=2, waiting=0)
    before = len(await api.executions(third["id"]))
    assert (await api.act(third["id"], "run")).status_code == 202
    seen = await api.in_group("reports", running=2, waiting=1)
    assert {each["name"] for each in seen["holders"]} == {"report-a", "report-b"}
    assert [each["name"] for each in seen["waiting"]] == ["daily-report"]
    assert (await api.job(third["id"]))["state"] == "blocked"
    assert len(await api.executions(third["id"])) == before
    # It was asked for once, and is not asked for any more.
    await api.acted(third["id"], "pause")
    await api.acted(third["id"], "resume")
    open_gate(gate)
    for job in (first, second):
        assert (await api.ended(job["id"]))["status"] == "completed"
    await api.in_group("reports", running=0, waiting=0)
    return {"id": first["id"], "also": second["id"]}


async def look_at_history(api: Client, jobs: list[Json]) -> None:
    ids = [job["id"] for job in jobs] + [jobs[-1]["also"]]
    runs = [run for job_id in ids for run in await api.executions(job_id)]
    states = [run["status"] for run in runs]
    assert (len(states), states.count("completed"), states.count("failed")) == (12, 8, 4)
    for run in runs:
        assert run["duration_ms"] is not None
        assert (run["error_message"] is None) == (run["status"] == "completed")


async def pause_and_disable(api: Client, jobs: dict[str, Json]) -> None:
    paused = await api.acted(jobs["health-check"]["id"], "pause")
    assert (paused["status"], paused["schedule"]["every"]) == ("paused", "30m")
    assert (await api.fetch(STATS))["activity"] == {"active": 6, "paused": 1, "disabled": 0}
    await api.acted(jobs["health-check"]["id"], "resume")
    await api.acted(jobs["cleanup-task"]["id"], "disable")


async def acknowledge(api: Client) -> None:
    [letter] = await api.letters(state="open")
    seen = await api.send(f"{LETTERS}/{letter['id']}/acknowledge")
    assert seen["acknowledged"] is True
    assert seen["acknowledged_at"] is not None
    assert await api.letters(state="open") == []


async def look_at_statistics(api: Client) -> None:
    stats = await api.fetch(STATS)
    assert stats["activity"] == {"active": 6, "paused": 0, "disabled": 1}
    assert (stats["runs"]["completed"], stats["runs"]["failed"]) == (8, 4)
    assert f"{stats['runs']['success_rate']:.1%}" == "66.7%"
    assert stats["runs"]["average_duration_ms"] is not None
    assert stats["dead_letters"] == {"total": 1, "unacknowledged": 0}
    page = await api.fetch(JOBS, limit=250)
    disabled = [job["name"] for job in page["jobs"] if job["state"] == "disabled"]
    assert (page["total"], disabled) == (7, ["cleanup-task"])
    assert (await api.fetch(f"{GROUPS}/reports"))["group"]["max_running"] == 2
