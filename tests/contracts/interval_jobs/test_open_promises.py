"""What the interval scheduler's clients were promised and do not have yet."""

from dataclasses import dataclass

import pytest

from tests.contracts.interval_jobs.client import Client


@dataclass(frozen=True)
class Promise:
    """A sentence of the contract, and why it is open."""

    sentence: str
    reason: str


CRAWLING = "no node serves the kind crawl yet: its jobs are stored, and wait"
MEASURING = "handlers share the process of their node, so that nothing can be measured of one run"
LOGS = "log lines of runs are not kept yet"
EVENTS = "there is no stream of events yet"

OPEN = {
    "crawl": Promise("Execute crawler: start with the source's name, wait for its end", CRAWLING),
    "items": Promise("items_crawled and items_indexed of a crawl are recorded", CRAWLING),
    "source": Promise(
        "Check source configuration: the source exists and its URL is valid", CRAWLING
    ),
    "cpu": Promise("Resource usage of a run: cpu_time_ms", MEASURING),
    "memory": Promise("Resource usage of a run: memory_peak_mb", MEASURING),
    "logs": Promise("GET /jobs/{id}/logs lists the logs of executions", LOGS),
    "download": Promise("GET /jobs/{id}/logs/download and /logs/view give the lines", LOGS),
    "stream": Promise("GET /jobs/{id}/logs/stream follows a run as it goes", LOGS),
    "events": Promise("GET /api/crawler/events and its like tell of every change", EVENTS),
}


@pytest.mark.parametrize("promise", OPEN.values(), ids=OPEN)
def test_every_open_promise_says_why(promise: Promise) -> None:
    assert promise.sentence
    assert promise.reason


async def test_crawls_still_wait(api: Client) -> None:
    """When this fails, crawling has come: move its promises to tests that keep them."""
    job = await api.crawl()
    other = await api.create(kind="works")
    await api.ended(other["id"])
    assert (await api.job(job["id"]))["status"] == "pending"
    told = (await api.get(f"/api/v1/jobs/{job['id']}/explain")).json()["explanation"]
    assert "crawl" in told


async def test_nothing_is_measured_of_a_run_yet(api: Client) -> None:
    """When this fails, runs are measured: say what the figures mean, and test it."""
    job = await api.create(kind="works")
    run = await api.ended(job["id"])
    assert (run["cpu_time_ms"], run["memory_peak_mb"]) == (None, None)


@pytest.mark.parametrize("word", ["logs", "events"])
async def test_there_are_no_routes_for_logs_and_events_yet(api: Client, word: str) -> None:
    """When this fails, there are: test them here, sentence by sentence."""
    paths = (await api.get("/openapi.json")).json()["paths"]
    assert [path for path in paths if word in path.split("/")] == []
