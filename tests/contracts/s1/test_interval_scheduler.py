"""The interval scheduler's clients: what they were told about errors, sign-in and history."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import httpx2 as httpx
import jwt
import pytest

from tests.conftest import SECRET
from tests.support.processes import Api, Process
from tests.support.waiting import eventually

UNKNOWN = "/api/v1/jobs/01890000-0000-7000-8000-000000000000"


def without_role() -> str:
    """A token as that system made them: no role in it."""
    return jwt.encode({"exp": datetime.now(UTC) + timedelta(hours=1)}, SECRET, algorithm="HS256")


@pytest.fixture
async def api(start: Callable[..., Process], client: Callable[..., Api]) -> Api:
    up = start("up")
    made = client(await up.ready(), role=None)
    made.http.headers["authorization"] = f"Bearer {without_role()}"
    return made


async def test_errors_have_one_text_and_their_documented_status(api: Api) -> None:
    async def error(answer: httpx.Response, status: int) -> str:
        assert answer.status_code == status
        return answer.json()["error"]

    bearer = api.http.headers.pop("authorization")
    assert await error(await api.get(UNKNOWN), 401) == "missing authorization"
    api.http.headers["authorization"] = "Bearer garbage"
    assert await error(await api.get(UNKNOWN), 401) == "invalid token"
    api.http.headers["authorization"] = bearer
    assert await error(await api.get(UNKNOWN), 404)
    assert await error(await api.get(f"{UNKNOWN}/executions"), 404)
    broken = await api.http.post(
        "/api/v1/jobs", content=b"{", headers={"content-type": "application/json"}
    )
    assert await error(broken, 400)


async def test_a_job_without_a_schedule_runs_at_once_and_is_completed(api: Api) -> None:
    answer = await api.post("/api/v1/jobs", {"kind": "echo"})
    assert answer.status_code == 201
    job = answer.json()
    assert UUID(job["id"])
    assert job["status"] in ("pending", "running", "completed"), "it may be quicker than the answer"
    await api.completed(job["id"])
    found = (await api.get(f"/api/v1/jobs/{job['id']}")).json()
    assert found["status"] == "completed"


async def test_history_is_a_page_of_executions_newest_first(api: Api, clock) -> None:
    job = await api.create(kind="echo", payload=[1], schedule="every 30m")
    assert job["status"] == "scheduled"
    for number in (1, 2, 3):
        await clock.advance(minutes=30)
        await eventually(lambda n=number: has_completed(api, job["id"], n), f"run {number}")
    path = f"/api/v1/jobs/{job['id']}/executions"
    page = (await api.get(path)).json()
    assert (page["total"], page["limit"], page["offset"]) == (3, 50, 0)
    assert [run["execution_number"] for run in page["executions"]] == [3, 2, 1]
    second = (await api.get(path, limit=1, offset=1)).json()
    assert (second["total"], second["limit"], second["offset"]) == (3, 1, 1)
    assert second["executions"] == page["executions"][1:2]


async def has_completed(api: Api, job_id: object, number: int) -> bool:
    runs = await api.executions(job_id)
    return (number, "completed") in [(run["execution_number"], run["status"]) for run in runs]


async def test_an_execution_has_every_documented_field(api: Api) -> None:
    job = await api.create(kind="echo")
    run = await api.completed(job["id"])
    assert UUID(str(run["id"]))
    expected = {
        "job_id": job["id"],
        "execution_number": 1,
        "status": "completed",
        "items_crawled": 0,
        "items_indexed": 0,
        "error_message": None,
        "stack_trace": None,
        "retry_attempt": 0,
    }
    assert {name: run[name] for name in expected} == expected
    assert isinstance(run["duration_ms"], int)
    started, completed = (
        datetime.fromisoformat(str(run[name])) for name in ("started_at", "completed_at")
    )
    assert started <= completed
