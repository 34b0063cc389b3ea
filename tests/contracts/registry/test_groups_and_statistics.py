"""Groups and statistics of the registry: limits held, the blocked told, everything counted."""

from pathlib import Path

from tests.contracts.interval_jobs.client import instant
from tests.contracts.registry.client import GROUPS, JOBS, STATS, Client, Json
from tests.contracts.registry.workers import open_gate
from tests.support.databases import Clock
from tests.support.waiting import eventually


async def open_group(api: Client, key: str, gate: Path, *limits: int) -> list[Json]:
    """Jobs that are asked to run at once, each with what it says of the limit."""
    jobs = [
        await api.create(
            kind="report",
            payload={"gate": str(gate)},
            schedule="every 1h",
            group=key,
            limits={"max_running": limit},
        )
        for limit in limits
    ]
    for job in jobs:
        assert (await api.act(job["id"], "run")).status_code == 202
    return jobs


async def test_jobs_of_a_group_share_its_places_and_the_blocked_are_told(
    api: Client, clock: Clock, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    jobs = await open_group(api, "shared", gate, 2, 2, 2)
    seen = await api.in_group("shared", running=2, waiting=1)
    blocked = seen["waiting"][0]
    assert instant(blocked["since"]) == clock.now
    assert instant(seen["group"]["waiting_since"]) == clock.now
    job = await api.job(blocked["job_id"])
    assert (job["state"], job["status"]) == ("blocked", "pending")
    explained = await api.fetch(f"{JOBS}/{job['id']}/explain")
    assert "group shared" in explained["explanation"]
    assert await api.executions(job["id"]) == [], "it has not run"
    open_gate(gate)
    for each in jobs:
        assert (await api.ended(each["id"]))["status"] == "completed", "and it is not dropped"
    await api.in_group("shared", running=0, waiting=0)


async def test_the_first_job_of_a_group_says_what_it_allows(api: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    jobs = await open_group(api, "first", gate, 1, 9)
    seen = await api.in_group("first", running=1, waiting=1)
    assert seen["group"]["max_running"] == 1
    assert "max_running 9 is not used" in jobs[1]["warnings"][0]
    changed = await api.http.put(f"{GROUPS}/first", json={"max_running": 2})
    assert changed.status_code == 200
    await api.in_group("first", running=2, waiting=0)
    open_gate(gate)
    await api.in_group("first", running=0, waiting=0)


async def test_a_retry_takes_a_place_as_well(api: Client, clock: Clock, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    flaky = await api.register(
        "flaky", "every 1h", payload={"fails": 1}, group="narrow", limits={"max_running": 1}
    )
    await api.execute(flaky)
    await open_group(api, "narrow", gate, 1)
    await api.in_group("narrow", running=1, waiting=0)
    await clock.advance(seconds=2)
    seen = await api.in_group("narrow", running=1, waiting=1)
    assert seen["waiting"][0]["name"] == "flaky"
    open_gate(gate)
    assert (await api.ended(flaky["id"], 2))["status"] == "completed"


async def test_a_paused_group_starts_nothing(api: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    open_gate(gate)
    await api.http.put(f"{GROUPS}/still", json={})
    assert (await api.send(f"{GROUPS}/still/pause"))["is_paused"] is True
    [job] = await open_group(api, "still", gate, 5)
    await api.in_group("still", running=0, waiting=1)
    assert (await api.send(f"{GROUPS}/still/resume"))["is_paused"] is False
    assert (await api.ended(job["id"]))["status"] == "completed"


async def test_a_job_that_names_no_group_is_in_none(api: Client) -> None:
    job = await api.create(kind="work", schedule="every 1h")
    assert job["group"] is None
    assert "default" not in [each["key"] for each in (await api.fetch(GROUPS, limit=250))["groups"]]


async def test_statistics_of_a_kind_a_group_a_job_and_by_day(api: Client, clock: Clock) -> None:
    before = await api.fetch(STATS, kind="work")
    more = {"group": "counted", "limits": {"max_running": 2}}
    good = await api.register("good", "every 1h", **more)
    bad = await api.register("bad", "every 1h", max_attempts=1, payload={"fails": 9}, **more)
    for number in (1, 2):
        await api.execute(good, number)
    await api.execute(bad)
    of_group = await api.fetch(STATS, group="counted")
    assert of_group["jobs"] == {"scheduled": 1, "failed": 1}
    assert of_group["activity"] == {"active": 2, "paused": 0, "disabled": 0}
    runs = of_group["runs"]
    assert (runs["total"], runs["completed"], runs["failed"]) == (3, 2, 1)
    assert round(runs["success_rate"], 3) == 0.667
    assert runs["average_duration_ms"] is not None
    assert of_group["dead_letters"] == {"total": 1, "unacknowledged": 1}
    of_kind = await api.fetch(STATS, kind="work")
    assert of_kind["runs"]["total"] - before["runs"]["total"] == 3
    assert (await api.fetch(STATS, kind="report", group="counted"))["runs"]["total"] == 0
    of_job = await api.fetch(f"{JOBS}/{bad['id']}/stats")
    assert (of_job["failed_runs"], of_job["success_rate"]) == (1, 0)
    assert of_job["dead_letters"] == {"total": 1, "unacknowledged": 1}
    await look_at_trends(api, clock, good)


async def look_at_trends(api: Client, clock: Clock, good: Json) -> None:
    """Yesterday's runs stay where they were when today's come."""
    await clock.advance(days=1)

    async def look() -> list[Json] | None:
        days = (await api.fetch(f"{STATS}/trend", group="counted", days=3))["days"]
        return days if days[-1]["completed"] else None

    days = await eventually(look, "runs of another day")
    assert [day["day"] for day in days] == ["2029-12-31", "2030-01-01", "2030-01-02"]
    assert (days[0]["total"], days[0]["success_rate"]) == (0, None)
    assert (days[1]["completed"], days[1]["failed"]) == (2, 1)
    of_job = (await api.fetch(f"{JOBS}/{good['id']}/stats/trend", days=2))["days"]
    assert (of_job[0]["completed"], of_job[0]["failed"]) == (2, 0)
