"""What is seen of balancing from outside: metrics by their names, log lines by their words.

There is no node here: it would place what is added, and tell of it in its own log.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.balancing.client import Client, Json, instant
from tests.support.databases import Clock
from tests.support.processes import Process


@pytest.fixture
async def client(server: Callable[[str], Any]) -> Client:
    return await server("on")


@pytest.fixture
async def herd(server: Callable[[str], Any]) -> list[Json]:
    """Jobs that all run at the same time, and no others."""
    observer: Client = await server("observe")
    await observer.remove_all()
    return await observer.at_once(10, 24 * 60)


def lines_of(process: Process, event: str) -> list[str]:
    return [line for line in process.output.splitlines() if event in line]


async def test_placements_are_in_the_metrics_and_in_the_log(
    client: Client, servers: Callable[[str], Process]
) -> None:
    before = await client.text_of_metrics()
    job = await client.works(60)
    await client.put(job["id"], interval_minutes=30)
    after = await client.text_of_metrics()

    def grown(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert grown('scheduler_placements_total{type="new"}') == 1
    assert grown('scheduler_placements_total{type="reschedule"}') == 1
    assert grown("scheduler_placement_duration_seconds_count") >= 1
    [placed] = [line for line in lines_of(servers("on"), "Placed new job") if job["id"] in line]
    assert "slot=" in placed
    assert "load=" in placed
    rebuilt = lines_of(servers("on"), "Bucket map rebuilt")[0]
    assert "job_count=" in rebuilt
    assert "distribution_score=" in rebuilt


async def test_a_rebalance_is_in_the_metrics_and_in_the_log(
    client: Client, herd: list[Json], servers: Callable[[str], Process]
) -> None:
    before = (await client.text_of_metrics()).get("scheduler_rebalance_total", 0)
    done = await client.rebalance()
    found = await client.text_of_metrics()
    assert found["scheduler_rebalance_total"] == before + 1
    assert found["scheduler_rebalance_jobs_moved"] == len(done["moved"]) == 9
    assert found["scheduler_rebalance_jobs_skipped"] == len(done["skipped"]) == 0
    assert found['scheduler_placements_total{type="rebalance"}'] == 9
    assert found["scheduler_distribution_score"] == done["new_distribution_score"] == 1.0
    line = lines_of(servers("on"), "Full rebalance completed")[-1]
    for part in ("moved=9", "skipped=0", "old_score=", "new_score=1.0", "info"):
        assert part in line


async def test_whoever_is_skipped_is_in_the_log_with_the_reason(
    client: Client, herd: list[Json], servers: Callable[[str], Process], clock: Clock
) -> None:
    await clock.set_to(instant(herd[0]["next_run_at"]) - timedelta(minutes=20))
    done = await client.rebalance()
    assert len(done["skipped"]) == 10
    found = await client.text_of_metrics()
    assert found["scheduler_rebalance_jobs_skipped"] == 10
    for each in done["skipped"]:
        [line] = [
            line
            for line in lines_of(servers("on"), "Job skipped during rebalance")
            if each["job_id"] in line
        ]
        assert "reason=protection_window" in line
        assert "warning" in line
