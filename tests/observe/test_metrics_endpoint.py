"""`/metrics` of real processes: work is counted, and the answer comes even without a database."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database.pool import Database
from evenbeat.web.token_checks import Role
from tests.postgres.support import server_at, stop_for_certain
from tests.support.processes import Api, Process
from tests.support.waiting import eventually

Start, Client = Callable[..., Process], Callable[..., Api]


@pytest.fixture
def other_server(home: Path) -> Iterator[EmbeddedServer]:
    """A PostgreSQL that a test may stop."""
    server = server_at(home / "postgres")
    server.acquire()
    yield server
    server.release()
    stop_for_certain(home / "postgres")


async def scrape(api: Api) -> dict[str, float]:
    """Every sample by its name and labels, as in `evenbeat_jobs{state="paused"}`."""
    answer = await api.get("/metrics")
    assert answer.status_code == 200, answer.text
    return samples_of(answer.text)


def samples_of(text: str, parse: Any = prometheus) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in parse(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


async def test_a_run_is_counted_with_its_duration_and_its_wait(
    start: Start, client: Client, clock: Any
) -> None:
    api = client(await start("up").ready())
    job = await api.create(kind="echo", payload={"a": 1})
    await api.completed(job["id"])
    found = await scrape(api)
    assert found['evenbeat_runs_total{kind="echo",outcome="completed"}'] == 1
    assert found['evenbeat_fires_total{decision="scheduled"}'] == 1
    assert found['evenbeat_run_duration_seconds_count{kind="echo"}'] == 1
    assert 0 < found['evenbeat_run_duration_seconds_sum{kind="echo"}'] < 60
    assert found['evenbeat_run_duration_seconds_bucket{kind="echo",le="+Inf"}'] == 1
    assert found['evenbeat_run_wait_seconds_count{kind="echo"}'] == 1
    assert found['evenbeat_claims_total{found="some"}'] == 1
    assert found["evenbeat_claim_batch_size_sum"] == 1
    assert found['evenbeat_worker_slots{state="free"}'] == 100
    assert found['evenbeat_worker_slots{state="busy"}'] == 0
    assert (found["evenbeat_database_up"], found["evenbeat_nodes_alive"]) == (1, 1)
    assert found["evenbeat_schedule_lag_seconds"] == 0
    assert found["evenbeat_leases_expired_total"] == 0
    [build] = [name for name in found if name.startswith("evenbeat_build_info")]
    assert re.search(r'version="\d+\.\d+\.\d+"', build)


async def test_requests_are_counted_by_route_and_never_by_path(
    start: Start, client: Client
) -> None:
    api = client(await start("server").ready())
    job = await api.create(kind="echo")
    await api.get(f"/api/v1/jobs/{job['id']}")
    await api.get("/api/v1/jobs/not-an-id")
    await api.get("/wp-login.php")
    await api.http.request("PROPFIND", "/livez")
    answer = await api.get("/metrics")
    found = samples_of(answer.text)

    def count(method: str, route: str, status: int) -> float:
        labels = f'method="{method}",route="{route}",status="{status}"'
        return found[f"evenbeat_http_requests_total{{{labels}}}"]

    assert count("POST", "/api/v1/jobs", 201) == 1
    assert count("GET", "/api/v1/jobs/{job_id}", 200) == 1
    assert count("GET", "/api/v1/jobs/{job_id}", 422) == 1
    assert count("GET", "none", 404) == 1
    assert count("other", "/livez", 405) == 1
    took = 'method="POST",route="/api/v1/jobs"'
    assert found[f"evenbeat_http_request_duration_seconds_count{{{took}}}"] == 1
    assert "wp-login" not in answer.text
    assert "PROPFIND" not in answer.text
    assert str(job["id"]) not in answer.text


async def test_a_viewer_gets_the_text_asked_for_and_a_stranger_none(
    start: Start, client: Client
) -> None:
    url = await start("server").ready()
    assert (await client(url, role=None).get("/metrics")).status_code == 401
    api = client(url, Role.VIEWER)
    plain = await api.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    asked = {"accept": "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"}
    answer = await api.http.get("/metrics", headers=asked)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    assert samples_of(answer.text, open_metrics)["evenbeat_database_up"] == 1


async def test_without_the_database_the_process_still_tells_what_it_counted(
    start: Start, client: Client, other_server: EmbeddedServer
) -> None:
    up = start("up", EVENBEAT_DATABASE_URL=other_server.url(), EVENBEAT_CLOCK="database")
    api = client(await up.ready(), Role.ADMIN)
    await api.completed((await api.create(kind="echo"))["id"])
    other_server.release()
    await up.says("Loop failed")
    found = await scrape(api)
    assert found["evenbeat_database_up"] == 0
    assert found['evenbeat_runs_total{kind="echo",outcome="completed"}'] == 1
    assert "evenbeat_nodes_alive" not in found, "it is unknown"
    assert sum(count for name, count in found.items() if "loop_failures_total" in name) > 0
    other_server.acquire()

    async def is_back() -> bool:
        return (await scrape(api))["evenbeat_database_up"] == 1

    await eventually(is_back, "the database in the metrics")


async def test_a_database_that_does_not_answer_in_time_is_not_waited_for(
    start: Start, client: Client, database: Database
) -> None:
    api = client(await start("server").ready())
    async with database.connection() as other, other.transaction():
        await other.execute("lock table evenbeat.node in access exclusive mode")
        found = await scrape(api)
    assert found["evenbeat_database_up"] == 0
    assert (await scrape(api))["evenbeat_database_up"] == 1


async def test_a_worker_shows_its_own_where_it_is_told_to(start: Start, client: Client) -> None:
    api = client(await start("server").ready())
    worker = start("worker", EVENBEAT_METRICS_PORT="0")
    await worker.ready()
    await worker.says("Metrics can be read")
    url = re.search(r"Metrics can be read\s+url=(\S+)", worker.output)
    assert url is not None, worker.output
    watcher = client(url[1], Role.VIEWER)
    job = await api.create(kind="echo")
    await api.completed(job["id"])
    found = await scrape(watcher)
    assert found['evenbeat_runs_total{kind="echo",outcome="completed"}'] == 1
    assert found["evenbeat_nodes_alive"] == 1
    assert (await watcher.get("/livez")).status_code == 200
    assert (await watcher.get("/api/v1/jobs")).status_code == 404
    assert (await client(url[1], role=None).get("/metrics")).status_code == 401
    assert 'evenbeat_runs_total{kind="echo"' not in (await api.get("/metrics")).text


async def test_a_worker_says_when_the_port_for_its_metrics_is_taken(
    start: Start, client: Client
) -> None:
    api = client(await start("server").ready())
    worker = start("worker", EVENBEAT_METRICS_PORT=str(api.http.base_url.port))
    assert await worker.ended() == 1
    assert "EVENBEAT_METRICS_PORT" in worker.output
