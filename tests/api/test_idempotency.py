"""Requests with an Idempotency-Key: done once, answered as often as they come."""

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import httpx2 as httpx
import pytest

from evenbeat.core.ops.access import Role
from tests.support.serving import assert_problem, assert_refused, client_of, token_for

JOBS = "/api/v1/jobs"
JOB = {"kind": "echo", "schedule": "once 2100-01-01T00:00:00Z"}


@pytest.fixture
def key() -> dict[str, str]:
    return {"idempotency-key": secrets.token_hex(8)}


def count_jobs(url: str, name: str) -> int:
    return execute(url, "select count(*) from evenbeat.job where labels->>'test' = $1", name)


def execute(url: str, query: str, *values: object) -> int:
    async def run() -> int:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query, *values)
        finally:
            await connection.close()

    return asyncio.run(run())


def test_the_second_time_the_answer_is_the_first_ones(api: httpx.Client, key: dict) -> None:
    first, second = (api.post(JOBS, json=JOB, headers=key) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    for name in ("location", "etag", "content-type"):
        assert first.headers[name] == second.headers[name]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


def test_without_a_key_or_with_another_it_is_another_request(api: httpx.Client, key: dict) -> None:
    other = {"idempotency-key": secrets.token_hex(8)}
    ids = {api.post(JOBS, json=JOB, headers=each).json()["id"] for each in ({}, {}, key, other)}
    assert len(ids) == 4


def test_the_quotes_of_a_key_are_not_part_of_it(api: httpx.Client, key: dict) -> None:
    quoted = {"idempotency-key": f'"{key["idempotency-key"]}"'}
    ids = {api.post(JOBS, json=JOB, headers=each).json()["id"] for each in (key, quoted)}
    assert len(ids) == 1


def test_another_body_with_the_same_key_is_refused(api: httpx.Client, key: dict) -> None:
    api.post(JOBS, json=JOB, headers=key)
    answer = api.post(JOBS, json=JOB | {"priority": 7}, headers=key)
    assert "another request" in assert_refused(answer, "Idempotency-Key")
    assert_refused(api.post(f"{JOBS}?x=1", json=JOB, headers=key), "Idempotency-Key")


@pytest.mark.parametrize("bad", ["", "a b", "x" * 256, "é", '"'])
def test_a_key_that_is_none_is_refused(api: httpx.Client, bad: str) -> None:
    answer = api.post(JOBS, json=JOB, headers={"idempotency-key": bad.encode()})
    assert_refused(answer, "Idempotency-Key")


def test_a_refusal_leaves_the_key_free(api: httpx.Client, key: dict) -> None:
    assert_problem(api.post(JOBS, json=JOB | {"kind": "nonesuch"}, headers=key), 422)
    broken = api.post(JOBS, content=b"{", headers=key | {"content-type": "application/json"})
    assert_problem(broken, 400)
    name = secrets.token_hex(8)
    assert api.post(JOBS, json=JOB | {"name": name}).status_code == 201
    assert_problem(api.post(JOBS, json=JOB | {"name": name}, headers=key), 409)
    assert api.post(JOBS, json=JOB, headers=key).status_code == 201


def test_keys_are_a_callers_own_and_a_roles(address: str, key: dict) -> None:
    answers = []
    for role in (Role.OPERATOR, Role.ADMIN):
        with client_of(address, token_for(role)) as client:
            answers.append(client.post(JOBS, json=JOB, headers=key))
    assert answers[0].json()["id"] != answers[1].json()["id"]
    with client_of(address, token_for(Role.VIEWER)) as viewer:
        assert_problem(viewer.post(JOBS, json=JOB, headers=key), 403)
    with client_of(address, None) as stranger:
        assert_problem(stranger.post(JOBS, json=JOB, headers=key), 401)


def test_many_at_once_make_one_job(address: str, database_url: str, key: dict) -> None:
    name, token = secrets.token_hex(8), token_for(Role.OPERATOR)
    job = JOB | {"labels": {"test": name}}

    def send(_: int) -> httpx.Response:
        with client_of(address, token) as client:
            return client.post(JOBS, json=job, headers=key)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(send, range(32)))
    codes = {answer.status_code for answer in answers}
    assert codes <= {201, 409}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 201}) == 1
    for answer in answers:
        if answer.status_code == 409:
            assert "still being worked on" in str(assert_problem(answer, 409)["error"])
            assert answer.headers["retry-after"] == "1"
    assert count_jobs(database_url, name) == 1


def test_one_that_died_at_its_work_is_not_done_again(
    api: httpx.Client, database_url: str, key: dict
) -> None:
    """As a crash leaves it: the key is taken, and there is no answer."""
    headers = key | {"x-request-id": "the-first"}
    job = api.post(JOBS, json=JOB, headers=headers).json()
    forget = "update evenbeat.idempotency set status = null, headers = null, body = null"
    execute(database_url, f"{forget} where key = $1", key["idempotency-key"])
    answer = api.post(JOBS, json=JOB, headers=key)
    assert "still being worked on" in str(assert_problem(answer, 409)["error"])
    old = "update evenbeat.idempotency set created_at = created_at - interval '2 minutes'"
    execute(database_url, f"{old} where key = $1", key["idempotency-key"])
    message = str(assert_problem(api.post(JOBS, json=JOB, headers=key), 409)["error"])
    assert "the-first" in message
    assert "use another key" in message
    assert api.get(f"{JOBS}/{job['id']}").status_code == 200


def test_after_a_day_a_key_is_as_good_as_new(
    api: httpx.Client, database_url: str, key: dict
) -> None:
    first = api.post(JOBS, json=JOB, headers=key).json()
    old = "update evenbeat.idempotency set created_at = created_at - interval '24 hours'"
    execute(database_url, f"{old} where key = $1", key["idempotency-key"])
    other = api.post(JOBS, json=JOB | {"priority": 7}, headers=key)
    assert other.status_code == 201
    assert other.json()["id"] != first["id"]


def test_a_get_has_no_use_for_a_key(api: httpx.Client, key: dict) -> None:
    place = api.post(JOBS, json=JOB, headers=key).headers["location"]
    assert api.get(place, headers=key).status_code == 200
