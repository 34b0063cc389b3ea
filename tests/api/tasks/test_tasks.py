"""/tasks beyond its contract: hostile bodies, idempotency keys, its description, the audit."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx2 as httpx
import pytest

from evenbeat.api.tasks.tasks import EXAMPLE
from evenbeat.api.tasks.wire import READERS, AttemptOut, TaskIn, TaskOut, attempt_fields
from evenbeat.core.jobs.model import Cause, Run, RunState
from evenbeat.core.ops.access import Role
from tests.api.corpus import INSTANTS, PAYLOADS, TEXTS, WHOLE_NUMBERS
from tests.support.serving import assert_problem, assert_refused, client_of, token_for

TASKS = "/tasks"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
CORPUS: dict[str, list[Any]] = {
    "type": [*TEXTS, None, "x" * 101, "nonesuch", "ЭХО"],
    "payload": [*PAYLOADS, "x" * 5_000],
    "runAt": [*INSTANTS, None, "2020-01-01T00:00:00Z", "2100-01-01T00:00:00"],
    "maxAttempts": [*WHOLE_NUMBERS, 0, 6],
}


def send(api: httpx.Client, body: object) -> httpx.Response:
    # What json= would refuse to write: NaN, and half a surrogate pair.
    headers = {"content-type": "application/json"}
    return api.post(TASKS, content=json.dumps(body), headers=headers)


def count(api: httpx.Client) -> str:
    return api.get(TASKS, params={"limit": 1}).headers["x-total-count"]


def test_there_are_hostile_values_for_every_field_of_a_task() -> None:
    assert CORPUS.keys() == READERS.keys() == TaskIn.model_fields.keys()


@pytest.mark.parametrize("field", CORPUS)
def test_a_hostile_value_is_refused_by_the_name_of_its_field(api: httpx.Client, field: str) -> None:
    before = count(api)
    for value in CORPUS[field]:
        answer = send(api, EXAMPLE | {field: value})
        assert answer.status_code == 400, f"{field} = {value!r}: {answer.text[:500]}"
        assert_refused(answer, field, 400)
    assert count(api) == before


@pytest.mark.parametrize("field", [*CORPUS, "id", "\x00", "\ud800", ""])
def test_nothing_is_an_error_of_ours_in_any_field(api: httpx.Client, field: str) -> None:
    for value in [*TEXTS, *WHOLE_NUMBERS, *PAYLOADS, None]:
        answer = send(api, EXAMPLE | {field: value})
        assert answer.status_code in (201, 400), f"{field} = {value!r}: {answer.text[:500]}"


def test_what_is_described_is_what_is_answered(api: httpx.Client) -> None:
    task = send(api, EXAMPLE).json()
    assert list(task) == list(TaskOut.model_fields)
    TaskOut.model_validate(task)
    paths = api.get("/openapi.json").json()["paths"]
    assert paths[TASKS]["post"]["requestBody"]["content"]["application/json"]["example"] == EXAMPLE
    attempt = attempt_fields(Run(1, UUID(int=1), 1, RunState.RUNNING, Cause.RETRY, NOW, 2, NOW))
    assert list(attempt) == list(AttemptOut.model_fields)
    AttemptOut.model_validate(attempt)


def test_with_an_idempotency_key_a_task_is_created_once(api: httpx.Client) -> None:
    before = int(count(api))
    answers = [api.post(TASKS, json=EXAMPLE, headers={"idempotency-key": "t"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert int(count(api)) == before + 1
    other = api.post(TASKS, json=EXAMPLE | {"type": "http"}, headers={"idempotency-key": "t"})
    assert_refused(other, "Idempotency-Key", 400)


def test_a_new_task_is_in_the_audit_under_the_name_of_whoever_made_it(
    api: httpx.Client, address: str
) -> None:
    task = api.post(TASKS, json=EXAMPLE).json()
    with client_of(address, token_for(Role.ADMIN)) as admin:
        [entry] = admin.get("/api/v1/audit", params={"job_id": task["id"]}).json()["entries"]
    assert (entry["action"], entry["actor"]) == ("add", "tests")


def test_a_payload_that_its_handler_cannot_use_is_refused(api: httpx.Client) -> None:
    assert_refused(send(api, EXAMPLE | {"type": "http", "payload": {}}), "payload", 400)


def test_a_task_needs_a_token(stranger: httpx.Client) -> None:
    assert_problem(stranger.post(TASKS, json={"type": 7}), 401)
    assert_problem(stranger.get(f"{TASKS}/not-even-an-id"), 401)


@pytest.mark.parametrize("path", ["/actuator/info", "/info"])
def test_the_info_tells_strangers_what_this_is_and_no_version(
    stranger: httpx.Client, path: str
) -> None:
    assert stranger.get(path).json() == {"app": {"name": "evenbeat"}}
