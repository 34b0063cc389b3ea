"""Many instances: no beat is run twice, and what a dead one had in hand is taken up again."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contracts.conftest import Workers
from tests.contracts.interval_jobs.client import JOBS, Client, Json
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.waiting import eventually

FLEET, ROUNDS = 100, 3
# The four intervals of the document. Jobs are found at once all the same: nodes are told of them.
DOCUMENTED = {
    "EVENBEAT_CHECK_INTERVAL": "10s",
    "EVENBEAT_LEASE_DURATION": "5m",
    "EVENBEAT_METRICS_INTERVAL": "30s",
    "EVENBEAT_STALE_CHECK_INTERVAL": "1m",
}


@pytest.fixture(scope="module")
def up(start: Callable[..., Process]) -> str:
    """A process that only answers; the work is done by workers."""
    return asyncio.run(start("server").ready())


async def test_two_nodes_run_each_of_300_beats_once(
    api: Client, clock: Clock, workers: Workers, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    await workers(2)
    job = {"kind": "signs", "payload": {"book": str(book)}, "interval_minutes": 1}
    answer = await api.post(f"{JOBS}/batch", {"jobs": [job] * FLEET})
    assert answer.status_code == 201, answer.text
    ids = answer.json()["ids"]
    before = (await api.metrics())["executions"]["total"]
    for number in range(1, ROUNDS + 1):
        await clock.advance(minutes=1)
        await eventually(lambda n=number: has_run(api, before + n * FLEET), f"round {number}")
    signed = Counter(book.read_text().splitlines())
    assert len(signed) == FLEET * ROUNDS
    assert set(signed.values()) == {1}
    runs = [run for job_id in ids for run in await api.executions(job_id)]
    assert Counter(run["execution_number"] for run in runs) == dict.fromkeys((1, 2, 3), FLEET)
    assert len({run["node"] for run in runs}) == 2, "both had a share"
    gone = await api.post(f"{JOBS}/actions", {"action": "delete", "filter": {"ids": ids}})
    assert gone.status_code == 200, gone.text


async def has_run(api: Client, total: int) -> bool:
    metrics = await api.metrics()
    return metrics["executions"]["total"] == total and not metrics["jobs"]["running"]


async def test_the_run_of_a_killed_node_is_closed_and_its_job_runs_again(
    api: Client, workers: Workers
) -> None:
    [doomed] = await workers(1)
    before = (await api.metrics())["stale_locks_cleared"]
    job = await api.create(kind="hangs", payload={"times": 1}, max_retries=3)
    await api.becomes(job["id"], "running")
    doomed.kill()
    await workers(1)
    lost, again = await api.ended(job["id"], 1), await api.ended(job["id"], 2)
    assert (lost["status"], lost["error_class"], lost["retry_attempt"]) == ("failed", "lost", 0)
    assert (again["status"], again["retry_attempt"]) == ("completed", 1)
    assert lost["node"] != again["node"]
    assert (await api.becomes(job["id"], "completed"))["lease"] is None
    assert (await api.metrics())["stale_locks_cleared"] == before + 1


async def test_a_node_that_starts_leaves_the_runs_of_others_alone(
    api: Client, workers: Workers
) -> None:
    await workers(1)
    job = await api.create(kind="hangs")
    running = await api.becomes(job["id"], "running")
    await workers(1)
    other = await api.create(kind="works")
    await api.ended(other["id"])
    [run] = await api.executions(job["id"])
    assert run["status"] == "running"
    assert (await api.job(job["id"]))["lease"] == running["lease"]
    await api.acted(job["id"], "cancel")
    await api.becomes(job["id"], "cancelled")


async def test_a_node_that_is_stopped_hands_its_run_back_and_that_is_no_attempt(
    api: Client, workers: Workers
) -> None:
    [stopping] = await workers(1, EVENBEAT_DRAIN_TIMEOUT="0s")
    job: Json = await api.create(kind="hangs")
    await api.becomes(job["id"], "running")
    assert await stopping.stop() == 0
    waiting = await api.job(job["id"])
    assert (waiting["status"], waiting["lease"]) == ("scheduled", None)
    assert waiting["current_retry_count"] == 0
    await workers(1)
    await api.becomes(job["id"], "running")
    [again, _] = await api.executions(job["id"])
    assert (again["execution_number"], again["retry_attempt"]) == (2, 0)
    await api.acted(job["id"], "cancel")
    await api.becomes(job["id"], "cancelled")


async def test_the_intervals_of_the_document_can_be_set(api: Client, workers: Workers) -> None:
    await workers(1, **DOCUMENTED)
    job = await api.create(kind="works")
    assert (await api.ended(job["id"]))["status"] == "completed"
