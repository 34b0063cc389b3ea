"""A client of the tasks service, as its document describes them."""

from datetime import datetime
from typing import Any

import httpx2 as httpx

from tests.support.processes import Api
from tests.support.waiting import eventually

TASKS = "/tasks"
UNKNOWN = "2c7a9a1f-3ac8-4d2d-8f5f-6f2d6a5c7e2a"
LATER = "2100-01-01T00:00:00Z"
# Nobody may have to wait for this one: it is far away.
TASK: dict[str, Any] = {"type": "echo", "payload": {"message": "hello"}, "runAt": LATER}

Json = dict[str, Any]


def instant(text: Any) -> datetime:
    return datetime.fromisoformat(text)


class Client(Api):
    """Speaks of tasks and their attempts, and waits for what is to become of them."""

    def __init__(self, url: str) -> None:
        # There is no TLS here, and reading the certificates takes longer than most of these tests.
        self.http = httpx.AsyncClient(base_url=url, timeout=30, trust_env=False, verify=False)

    async def send(self, **task: Any) -> httpx.Response:
        return await self.post(TASKS, TASK | task)

    async def created(self, **task: Any) -> Json:
        answer = await self.send(**task)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def task(self, task_id: Any) -> Json:
        answer = await self.get(f"{TASKS}/{task_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def listed(self, **query: Any) -> list[Json]:
        answer = await self.get(TASKS, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def attempts(self, task_id: Any) -> list[Json]:
        answer = await self.get(f"{TASKS}/{task_id}/runs")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def cancel(self, task_id: Any) -> httpx.Response:
        return await self.http.post(f"{TASKS}/{task_id}/cancel")

    async def becomes(self, task_id: Any, status: str, **more: Any) -> Json:
        """Waits until the task is so; `attempt=1` tells a task that waits again from a new one."""

        async def look() -> Json | None:
            task = await self.task(task_id)
            return task if task | {"status": status} | more == task else None

        return await eventually(look, f"{task_id} is {status} {more}")


def problem_of(answer: httpx.Response, status: int) -> Json:
    """An error as the document's clients read them."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: Json = answer.json()
    assert {"type", "title", "status", "detail", "instance"} <= body.keys()
    assert (body["status"], body["instance"]) == (status, answer.request.url.path)
    return body


def invalid_fields(answer: httpx.Response) -> set[str]:
    """The fields that a validation has found at fault."""
    body = problem_of(answer, 400)
    assert (body["title"], body["detail"]) == ("Validation failed", "Request has invalid fields")
    assert all(each.keys() == {"field", "message"} for each in body["errors"])
    assert all(each["message"] for each in body["errors"])
    return {each["field"] for each in body["errors"]}


def refusal_of(answer: httpx.Response, field: str) -> str:
    """What is refused by a sentence of its own, which is also told of the field."""
    body = problem_of(answer, 400)
    assert body["title"] == "Bad Request"
    assert body["errors"] == [{"field": field, "message": body["detail"]}]
    return body["detail"]
