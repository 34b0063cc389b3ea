"""A client of the interval scheduler, as its document describes them."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2 as httpx
import jwt

from tests.support.processes import Api
from tests.support.serving import SECRET
from tests.support.waiting import eventually

JOBS = "/api/v1/jobs"
METRICS = "/api/v1/scheduler/metrics"
UNKNOWN = "01890000-0000-7000-8000-000000000000"
PAGE = {"source_id": "news-site", "source_name": "example.com", "url": "https://example.com"}

Json = dict[str, Any]


def token() -> str:
    """A token as that system made them: no role in it."""
    return jwt.encode({"exp": datetime.now(UTC) + timedelta(hours=1)}, SECRET, algorithm="HS256")


def instant(text: Any) -> datetime:
    return datetime.fromisoformat(text)


@contextlib.asynccontextmanager
async def stillness(admin: "Client") -> AsyncIterator[None]:
    """Nothing starts while a test looks at what waits."""
    answer = await admin.http.put("/api/v1/maintenance", json={"reason": "a test looks"})
    assert answer.status_code == 200, answer.text
    yield
    await admin.http.delete("/api/v1/maintenance")


class Client(Api):
    """Speaks of jobs and their executions, and waits for what is to become of them."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"authorization": f"Bearer {token}"}
        # There is no TLS here, and reading the certificates takes longer than most of these tests.
        self.http = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=30, trust_env=False, verify=False
        )

    async def crawl(self, **job: Any) -> Json:
        """A job that is stored and waits, since nobody crawls yet."""
        return await self.create(**PAGE, **job)

    async def job(self, job_id: Any) -> Json:
        answer = await self.get(f"{JOBS}/{job_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def act(self, job_id: Any, action: str) -> httpx.Response:
        return await self.http.post(f"{JOBS}/{job_id}/{action}")

    async def acted(self, job_id: Any, action: str) -> Json:
        answer = await self.act(job_id, action)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def put(self, job_id: Any, **changes: Any) -> httpx.Response:
        return await self.http.put(f"{JOBS}/{job_id}", json=changes)

    async def metrics(self) -> Json:
        answer = await self.get(METRICS)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def becomes(self, job_id: Any, status: str) -> Json:
        async def look() -> Json | None:
            job = await self.job(job_id)
            return job if job["status"] == status else None

        return await eventually(look, f"{job_id} is {status}")

    async def ended(self, job_id: Any, number: int = 1) -> Json:
        """The execution of this number, once it has ended."""

        async def look() -> Json | None:
            runs = await self.executions(job_id)
            ended = (run for run in runs if run["completed_at"] is not None)
            return next((run for run in ended if run["execution_number"] == number), None)

        return await eventually(look, f"the end of execution {number} of {job_id}")
