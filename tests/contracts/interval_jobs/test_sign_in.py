"""Sign-in: every call needs a token; errors are one text."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contracts.interval_jobs.client import JOBS, METRICS, UNKNOWN, Client
from tests.support.serving import assert_problem

# What the document names; the rest of the OpenAPI is asked as well.
DOCUMENTED = {
    ("post", JOBS),
    ("get", JOBS),
    ("get", f"{JOBS}/status-counts"),
    ("get", f"{JOBS}/{{job_id}}"),
    ("put", f"{JOBS}/{{job_id}}"),
    ("delete", f"{JOBS}/{{job_id}}"),
    ("post", f"{JOBS}/{{job_id}}/pause"),
    ("post", f"{JOBS}/{{job_id}}/resume"),
    ("post", f"{JOBS}/{{job_id}}/cancel"),
    ("post", f"{JOBS}/{{job_id}}/retry"),
    ("post", f"{JOBS}/{{job_id}}/run"),
    ("get", f"{JOBS}/{{job_id}}/executions"),
    ("get", "/api/v1/executions/{execution_id}"),
    ("get", f"{JOBS}/{{job_id}}/stats"),
    ("get", METRICS),
}


async def operations(api: Client) -> set[tuple[str, str]]:
    described: dict[str, Any] = (await api.get("/openapi.json")).json()["paths"]
    return {
        (method, path)
        for path, methods in described.items()
        if path.startswith("/api/")
        for method in methods
    }


def addresses(found: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for method, path in sorted(found):
        parts = (UNKNOWN if part.startswith("{") else part for part in path.split("/"))
        yield method, "/".join(parts)


async def test_every_documented_call_is_there(api: Client) -> None:
    assert await operations(api) >= DOCUMENTED


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({}, "missing authorization"),
        ({"authorization": ""}, "missing authorization"),
        ({"authorization": "Bearer garbage"}, "invalid token"),
        ({"authorization": "Basic dXNlcjpwYXNz"}, "invalid token"),
    ],
)
async def test_no_call_is_answered_without_a_good_token(
    api: Client, headers: dict[str, str], error: str
) -> None:
    found = await operations(api)
    del api.http.headers["authorization"]
    for method, path in addresses(found):
        answer = await api.http.request(method, path, headers=headers)
        assert assert_problem(answer, 401)["error"] == error, (method, path)


async def test_health_is_open(api: Client) -> None:
    del api.http.headers["authorization"]
    assert (await api.get("/livez")).status_code == 200
    assert (await api.get("/readyz")).status_code == 200


async def test_a_token_without_a_role_may_do_all_that_the_document_describes(api: Client) -> None:
    job = await api.crawl(interval_minutes=30)
    for action in ("pause", "resume", "cancel", "retry"):
        await api.acted(job["id"], action)
    for path in (JOBS, f"{JOBS}/{job['id']}/executions", f"{JOBS}/{job['id']}/stats", METRICS):
        assert (await api.get(path)).status_code == 200
    assert (await api.put(job["id"], max_retries=5)).status_code == 200
    assert (await api.http.delete(f"{JOBS}/{job['id']}")).status_code == 200


async def test_an_error_is_one_text_whatever_went_wrong(api: Client) -> None:
    json = {"content-type": "application/json"}
    job = await api.acted((await api.crawl())["id"], "cancel")
    answers = {
        400: await api.http.post(JOBS, content=b"{", headers=json),
        404: await api.get(f"{JOBS}/{UNKNOWN}"),
        409: await api.act(job["id"], "pause"),
        422: await api.post(JOBS, {"url": "https://example.com", "max_retries": "many"}),
    }
    for status, answer in answers.items():
        assert_problem(answer, status)


@pytest.mark.parametrize("path", [f"{JOBS}/undefined", f"{JOBS}/undefined/stats"])
async def test_an_id_that_is_none_is_the_callers_mistake(api: Client, path: str) -> None:
    answer = await api.get(path)
    assert answer.status_code in (404, 422)
    assert_problem(answer, answer.status_code)
