"""What is seen of balancing from outside: metrics by their names, log lines by their words."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.contracts.s2.talking import Client, instant
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.waiting import eventually

HOURS = [f'scheduler_slot_job_count{{hour="{hour}"}}' for hour in range(24)]


async def metrics_with(api: Client, **expected: float) -> dict[str, float]:
    async def look() -> dict[str, float] | None:
        found = await api.text_of_metrics()
        return found if expected.items() <= found.items() else None

    return await eventually(look, f"metrics with {expected}")


async def test_the_distribution_is_in_the_metrics(api: Client) -> None:
    await api.many(4, 60)
    found = await metrics_with(api, scheduler_peak_hour_job_count=4)
    shown = await api.distribution()
    assert found["scheduler_distribution_score"] == shown["distribution_score"] == 1.0
    counts = [hour["job_count"] for hour in shown["hourly_distribution"]]
    assert [found[name] for name in HOURS] == counts


async def test_placements_are_in_the_metrics(api: Client) -> None:
    before = await api.text_of_metrics()
    job = await api.works(60)
    await api.put(job["id"], interval_minutes=30)
    after = await api.text_of_metrics()

    def grown(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert grown('scheduler_placements_total{type="new"}') == 1
    assert grown('scheduler_placements_total{type="reschedule"}') == 1
    assert grown("scheduler_placement_duration_seconds_count") >= 1


async def test_a_rebalance_is_in_the_metrics_and_in_the_log(
    api: Client, start: Callable[..., Process], clock: Clock
) -> None:
    # Whoever keeps placing what others add would spoil the herd.
    observer, balancer = start("server", EVENBEAT_BALANCING="observe"), start("server")
    token: Any = api.http.headers["authorization"].partition(" ")[2]
    watching, client = Client(await observer.ready(), token), Client(await balancer.ready(), token)
    try:
        herd = await watching.at_once(10, 24 * 60)
        assert len({job["next_run_at"] for job in herd}) == 1
        before = await client.text_of_metrics()
        soon = instant(herd[0]["next_run_at"]) - timedelta(minutes=20)
        pinned_down = await watching.create(
            kind="works", payload={}, interval_minutes=120, schedule_enabled=True
        )
        done = await client.rebalance()
        name = "scheduler_rebalance_total"
        found = await metrics_with(client, **{name: before.get(name, 0) + 1})
        assert found["scheduler_rebalance_jobs_moved"] == len(done["moved"]) > 5
        assert found["scheduler_rebalance_jobs_skipped"] == len(done["skipped"])
        assert found['scheduler_placements_total{type="rebalance"}'] == len(done["moved"])
        line = next(
            each for each in balancer.output.splitlines() if "Full rebalance completed" in each
        )
        for field in ("moved=", "skipped=", "old_score=", "new_score="):
            assert field in line
        await clock.set_to(soon)
        again = await client.rebalance()
        skipped = next(each for each in again["skipped"] if each["reason"] == "protection_window")
        lines = [each for each in balancer.output.splitlines() if skipped["job_id"] in each]
        assert any(
            "Job skipped during rebalance" in each and "protection_window" in each for each in lines
        )
        assert pinned_down
    finally:
        for each in (watching, client):
            await each.http.aclose()


async def test_placing_and_rescheduling_are_in_the_log(
    start: Callable[..., Process], api: Client, clock: Clock
) -> None:
    process = start("up")
    token = api.http.headers["authorization"].partition(" ")[2]
    client = Client(await process.ready(), token)
    job = await client.works(60)
    output = await process.says("Placed new job")
    line = next(each for each in output.splitlines() if job["id"] in each and "Placed" in each)
    assert "slot=" in line
    assert "load=" in line
    await client.http.aclose()
    process.kill()
