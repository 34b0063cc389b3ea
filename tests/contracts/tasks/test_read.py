"""Reading tasks: one, or a list of them."""

from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.tasks.client import TASKS, UNKNOWN, Client, invalid_fields, problem_of
from tests.support.databases import Clock

JOBS = "/api/v1/jobs"


async def test_a_task_is_read_by_its_id(tasks: Client) -> None:
    created = await tasks.created()
    assert await tasks.task(created["id"]) == created


@pytest.mark.parametrize("tail", ["", "/runs"])
async def test_a_task_that_is_not_there_is_404(tasks: Client, tail: str) -> None:
    problem = problem_of(await tasks.get(f"{TASKS}/{UNKNOWN}{tail}"), 404)
    assert (problem["title"], problem["detail"]) == ("Not Found", f"Task not found: {UNKNOWN}")


@pytest.mark.parametrize("tail", ["", "/runs"])
async def test_an_id_that_is_no_uuid_is_400(tasks: Client, tail: str) -> None:
    assert invalid_fields(await tasks.get(f"{TASKS}/not-an-id{tail}")) == {"id"}


async def test_a_list_has_20_tasks_the_newest_first_and_says_how_many_there_are(
    tasks: Client,
) -> None:
    before = int((await tasks.get(TASKS)).headers["x-total-count"])
    ids = [(await tasks.created())["id"] for _ in range(25)]
    answer = await tasks.get(TASKS)
    assert [task["id"] for task in answer.json()] == ids[::-1][:20]
    assert answer.headers["x-total-count"] == str(before + 25)


async def test_pages_of_tasks_created_at_the_same_instant_neither_overlap_nor_leave_one_out(
    tasks: Client,
) -> None:
    ids = [(await tasks.created())["id"] for _ in range(9)]
    pages = [await tasks.listed(limit=3, offset=offset) for offset in (0, 3, 6)]
    assert [task["id"] for page in pages for task in page] == ids[::-1]


@pytest.mark.parametrize("query", [{"limit": 1}, {"limit": 100}, {"offset": 0}])
async def test_the_bounds_of_a_page_are_allowed(tasks: Client, query: dict[str, Any]) -> None:
    assert (await tasks.get(TASKS, **query)).status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        *({"limit": 0}, {"limit": 101}, {"limit": -1}, {"limit": "x"}),
        *({"offset": -1}, {"offset": "x"}),
        *({"status": "pending"}, {"status": "WAITING"}, {"payload": "xml"}),
    ],
)
async def test_what_is_beyond_them_is_400(tasks: Client, query: dict[str, Any]) -> None:
    assert invalid_fields(await tasks.get(TASKS, **query)) == set(query)


async def test_a_list_may_be_of_one_status(tasks: Client, clock: Clock) -> None:
    now = clock.now.isoformat()
    by_status = {
        "PENDING": await tasks.created(),
        "RUNNING": await tasks.created(type="hangs", runAt=now),
        "DONE": await tasks.created(runAt=now),
        "FAILED": await tasks.created(type="fails", runAt=now, maxAttempts=1),
        "CANCELED": await tasks.created(),
    }
    await tasks.cancel(by_status["CANCELED"]["id"])
    for status, task in by_status.items():
        await tasks.becomes(task["id"], status)
    for status, task in by_status.items():
        answer = await tasks.get(TASKS, status=status, limit=100)
        assert {each["status"] for each in answer.json()} == {status}
        assert task["id"] in [each["id"] for each in answer.json()]
        assert int(answer.headers["x-total-count"]) == len(answer.json())
    await tasks.http.post(f"{JOBS}/{by_status['RUNNING']['id']}/cancel")
    await tasks.becomes(by_status["RUNNING"]["id"], "CANCELED")


async def test_a_job_of_another_face_is_a_task_as_well(tasks: Client, clock: Clock) -> None:
    job = await tasks.create(kind="echo", schedule="every 1h", max_attempts=9)
    task = await tasks.task(job["id"])
    assert (task["status"], task["type"], task["maxAttempts"]) == ("PENDING", "echo", 9)
    first = (clock.now + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert task["runAt"] == first
    for action, status in (("pause", "PENDING"), ("resume", "PENDING"), ("disable", "CANCELED")):
        answer = await tasks.http.post(f"{JOBS}/{job['id']}/{action}")
        assert answer.status_code == 200, answer.text
        assert (await tasks.task(job["id"]))["status"] == status
