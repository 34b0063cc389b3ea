"""Creating tasks: what is needed, what may be left out, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.tasks.client import (
    LATER,
    TASK,
    TASKS,
    Client,
    instant,
    invalid_fields,
    problem_of,
    refusal_of,
)
from tests.support.databases import Clock

# As the document has it, but for the year.
DOCUMENTED = {
    "type": "echo",
    "payload": {"message": "hello"},
    "runAt": "2036-02-20T10:20:00+09:00",
    "maxAttempts": 3,
}


async def test_the_example_of_the_document_is_answered_as_documented(tasks: Client) -> None:
    answer = await tasks.post(f"{TASKS}?payload=string", DOCUMENTED)
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    task = answer.json()
    assert list(task) == [
        *("id", "type", "payload", "status", "runAt", "attempt", "maxAttempts", "error")
    ]
    assert task == {
        "id": task["id"],
        "type": "echo",
        "payload": '{"message":"hello"}',
        "status": "PENDING",
        "runAt": "2036-02-20T10:20:00+09:00",
        "attempt": 0,
        "maxAttempts": 3,
        "error": None,
    }
    assert answer.headers["location"] == f"{TASKS}/{task['id']}"


@pytest.mark.parametrize(
    "payload", [{"a": {"b": [1, 2.5]}}, [], {}, "text", "", 7, -0.5, True, False, None]
)
async def test_a_payload_is_any_json_value_and_comes_back_as_it_is_or_as_text(
    tasks: Client, payload: Any
) -> None:
    created = await tasks.created(payload=payload)
    assert created["payload"] == payload
    found = await tasks.task(created["id"])
    assert found["payload"] == payload
    assert type(found["payload"]) is type(payload)
    as_text = (await tasks.get(f"{TASKS}/{created['id']}", payload="string")).json()
    assert isinstance(as_text["payload"], str)
    [listed] = await tasks.listed(limit=1, payload="string")
    assert listed == as_text
    again = await tasks.created(payload=payload)
    assert again["id"] != created["id"]


@pytest.mark.parametrize("field", ["type", "payload", "runAt"])
async def test_a_required_field_that_is_missing_is_named(tasks: Client, field: str) -> None:
    task = {name: value for name, value in TASK.items() if name != field}
    assert invalid_fields(await tasks.post(TASKS, task)) == {field}


@pytest.mark.parametrize("value", [None, "", "  ", "\t\n", 7, ["echo"], {}])
async def test_a_type_must_be_text_and_not_blank(tasks: Client, value: Any) -> None:
    assert invalid_fields(await tasks.send(type=value)) == {"type"}


@pytest.mark.parametrize(
    "value", [None, "", "tomorrow", 7, "2036-02-20", "2036-02-20T10:20:00", "2036-02-30T10:20:00Z"]
)
async def test_run_at_must_be_an_instant_with_an_offset(tasks: Client, value: Any) -> None:
    assert invalid_fields(await tasks.send(runAt=value)) == {"runAt"}


@pytest.mark.parametrize("value", [0, 6, -1, 100, "3", 2.5, True, []])
async def test_max_attempts_must_be_from_1_to_5(tasks: Client, value: Any) -> None:
    assert invalid_fields(await tasks.send(maxAttempts=value)) == {"maxAttempts"}


@pytest.mark.parametrize(("value", "most"), [(None, 3), (1, 1), (3, 3), (5, 5)])
async def test_max_attempts_may_be_left_out(tasks: Client, value: Any, most: int) -> None:
    assert (await tasks.created(maxAttempts=value))["maxAttempts"] == most
    assert (await tasks.created())["maxAttempts"] == 3


async def test_every_field_at_fault_is_named_at_once(tasks: Client) -> None:
    answer = await tasks.post(TASKS, {"type": " ", "maxAttempts": 9})
    assert invalid_fields(answer) == {"type", "payload", "runAt", "maxAttempts"}


@pytest.mark.parametrize("written", ["ECHO", "Echo", " echo "])
async def test_a_type_is_lower_cased(tasks: Client, written: str) -> None:
    created = await tasks.created(type=written)
    assert created["type"] == (await tasks.task(created["id"]))["type"] == "echo"


async def test_a_type_without_a_handler_is_refused_with_those_that_have_one(tasks: Client) -> None:
    told = refusal_of(await tasks.send(type="Fly"), "type")
    head, _, supported = told.partition(". Supported types: ")
    assert head == "Unsupported task type: fly"
    assert {"echo", "fails", "hangs"} <= set(supported.split(", "))


@pytest.mark.parametrize("letter", ["x", "é"])
async def test_a_payload_has_at_most_5000_characters_as_json(tasks: Client, letter: str) -> None:
    longest = letter * 4998
    assert (await tasks.created(payload=longest))["payload"] == longest
    assert refusal_of(await tasks.send(payload=longest + letter), "payload") == "payload too long"


async def test_run_at_may_be_ten_seconds_ago_and_no_longer(tasks: Client, clock: Clock) -> None:
    just = clock.now - timedelta(seconds=10)
    created = await tasks.created(runAt=just.isoformat())
    assert instant(created["runAt"]) == just
    before = (just - timedelta(milliseconds=1)).isoformat()
    assert refusal_of(await tasks.send(runAt=before), "runAt") == "runAt must be in future"


async def test_run_at_comes_back_with_its_offset_and_is_the_same_instant_later(
    tasks: Client,
) -> None:
    for written in ("2036-02-20T10:20:00+09:00", "2036-02-20T01:20:00-03:30", LATER):
        created = await tasks.created(runAt=written)
        assert created["runAt"] == written
        found = await tasks.task(created["id"])
        assert instant(found["runAt"]) == instant(written)
        assert found["runAt"].endswith("Z")


async def test_fields_that_are_not_known_are_ignored(tasks: Client) -> None:
    created = await tasks.created(colour="red", status="DONE", attempt=7, id="x")
    assert (created["status"], created["attempt"]) == ("PENDING", 0)
    assert "colour" not in created


@pytest.mark.parametrize("body", ["", "{", "{'type': 1}", '{"type": "echo"', "[" * 100_000])
async def test_a_body_that_is_not_json_is_400(tasks: Client, body: str) -> None:
    headers = {"content-type": "application/json"}
    answer = await tasks.http.post(TASKS, content=body, headers=headers)
    assert problem_of(answer, 400)["title"] == "Bad Request"


@pytest.mark.parametrize("body", ["[]", '"x"', "7", "null"])
async def test_a_body_that_is_no_object_is_400(tasks: Client, body: str) -> None:
    headers = {"content-type": "application/json"}
    answer = await tasks.http.post(TASKS, content=body, headers=headers)
    assert invalid_fields(answer) == {"body"}


async def test_a_body_of_another_type_is_415(tasks: Client) -> None:
    answer = await tasks.http.post(TASKS, data=TASK)
    assert problem_of(answer, 415)["title"] == "Unsupported Media Type"
