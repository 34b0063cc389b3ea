"""What strangers send: always an answer that names the fault, never an error of ours."""

import gzip
import json
import socket

import httpx2 as httpx
import pytest

from tests.api.corpus import HUGE, nested
from tests.support.serving import assert_problem, assert_refused

JOBS = "/api/v1/jobs"
MEGABYTE = 1_000_000


def send(api: httpx.Client, body: str | bytes) -> httpx.Response:
    return api.post(JOBS, content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize(
    "body",
    [
        "{",
        '{"kind": "echo"',
        '{"kind": "echo",}',
        "{'kind': 'echo'}",
        '{"kind": "echo"} more',
        '{"kind": "ec\nho"}',
        '{"kind": "\\x"}',
        b'{"kind": "\xff"}',
        b"\x00",
        '{"kind": "echo", "payload": ' + HUGE + "}",
        '{"kind": "echo", "payload": ' + nested(100_000) + "}",
        nested(100_000),
        "[" * 500_000,
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_body_that_is_not_json_is_400(api: httpx.Client, body: str | bytes) -> None:
    problem = assert_problem(send(api, body), 400)
    assert "JSON" in str(problem["error"])


@pytest.mark.parametrize("body", ["", "null", "[]", "[[]]", '"kind"', "7", "true", "{}"])
def test_a_body_that_is_json_but_not_a_job_is_422(api: httpx.Client, body: str) -> None:
    assert_problem(send(api, body), 422)


def test_a_body_of_another_content_type_is_refused(api: httpx.Client) -> None:
    for other in ("text/plain", "application/x-www-form-urlencoded"):
        answer = api.post(JOBS, content=b'{"kind": "echo"}', headers={"content-type": other})
        assert "Content-Type: application/json" in str(assert_problem(answer, 415)["error"])


def test_a_packed_body_is_refused_before_it_is_unpacked(api: httpx.Client) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = api.post(JOBS, content=gzip.compress(b" " * 10_000_000), headers=headers)
    assert "Content-Encoding" in str(assert_problem(answer, 415)["error"])


def test_every_wrong_field_of_one_body_is_named(api: httpx.Client) -> None:
    answer = send(api, '{"kind": 7, "priority": 101, "max_attempts": true, "colour": "red"}')
    problem = assert_problem(answer, 422)
    named = {each["field"] for each in problem["errors"]}  # type: ignore[attr-defined]
    assert named == {"kind", "priority", "max_attempts", "colour"}


@pytest.mark.parametrize("name", ["colour", "status", "id", "version", "lock_token", "\ud800", ""])
def test_an_unknown_field_is_refused_and_named(api: httpx.Client, name: str) -> None:
    answer = send(api, json.dumps({"kind": "echo", name: 1}))
    problem = assert_problem(answer, 422)
    [fault] = problem["errors"]  # type: ignore[misc]
    assert fault["message"]
    if name == "colour":
        assert fault["field"] == "colour"


def test_a_thousand_unknown_fields_do_not_make_a_thousand_faults(api: httpx.Client) -> None:
    body = {"kind": "echo"} | {f"{number}-{'x' * 500}": 1 for number in range(1_000)}
    answer = send(api, json.dumps(body))
    assert_problem(answer, 422)
    assert len(answer.content) < 20_000


def test_an_unknown_kind_is_refused_with_the_known_ones(api: httpx.Client) -> None:
    message = assert_refused(api.post(JOBS, json={"kind": "nonesuch"}), "kind")
    assert "nonesuch" in message
    assert "echo" in message


def test_a_name_can_be_given_once(api: httpx.Client) -> None:
    job = {"kind": "echo", "name": "only one", "schedule": "every 1d"}
    assert api.post(JOBS, json=job).status_code == 201
    problem = assert_problem(api.post(JOBS, json=job), 409)
    assert "only one" in str(problem["error"])


def test_a_body_over_a_megabyte_is_413_if_it_says_so(api: httpx.Client) -> None:
    problem = assert_problem(send(api, b" " * (MEGABYTE + 1)), 413)
    assert "1,000,000" in str(problem["error"])


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(api: httpx.Client) -> None:
    place = (api.base_url.host, api.base_url.port or 80)
    with socket.create_connection(place, timeout=30) as connection:
        connection.sendall(
            b"POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            b"content-length: 1000001\r\n\r\n"
        )
        assert connection.recv(12) == b"HTTP/1.1 413"


def test_a_body_over_a_megabyte_is_413_if_it_does_not_say_so(api: httpx.Client) -> None:
    def chunks():
        for _ in range(11):
            yield b" " * (MEGABYTE // 10)

    answer = api.post(JOBS, content=chunks(), headers={"content-type": "application/json"})
    assert "content-length" not in answer.request.headers
    assert_problem(answer, 413)


def test_a_body_of_almost_a_megabyte_is_accepted(api: httpx.Client) -> None:
    job = {"kind": "echo", "payload": "x" * (MEGABYTE - 100), "schedule": "every 1d"}
    answer = api.post(JOBS, json=job)
    assert answer.status_code == 201
    assert answer.json()["payload"] == job["payload"]


UNKNOWN = "01890000-0000-7000-8000-000000000000"


@pytest.mark.parametrize("tail", ["", "/executions"])
def test_an_unknown_job_is_404(api: httpx.Client, tail: str) -> None:
    problem = assert_problem(api.get(f"{JOBS}/{UNKNOWN}{tail}"), 404)
    assert UNKNOWN in str(problem["error"])


@pytest.mark.parametrize("tail", ["", "/executions"])
@pytest.mark.parametrize("name", ["undefined", "7", "-1", "%00", "%ff", "é", "x" * 5_000, "..%2f"])
def test_a_malformed_job_id_is_refused(api: httpx.Client, name: str, tail: str) -> None:
    answer = api.get(f"{JOBS}/{name}{tail}")
    assert answer.status_code in (404, 422)
    assert_problem_without_path(answer)


def assert_problem_without_path(answer: httpx.Response) -> None:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "limit", ["0", "-1", "251", "x", "", "1.5", "1e2", "9" * 5_000, "%00", "٣"]
)
def test_a_limit_out_of_range_is_422(api: httpx.Client, limit: str) -> None:
    assert_refused(api.get(f"{JOBS}/{UNKNOWN}/executions?limit={limit}"), "limit")


@pytest.mark.parametrize("offset", ["-1", "1000001", "x", "", "9223372036854775808", "9" * 5_000])
def test_an_offset_out_of_range_is_422(api: httpx.Client, offset: str) -> None:
    assert_refused(api.get(f"{JOBS}/{UNKNOWN}/executions?offset={offset}"), "offset")


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/api/v1/nonesuch", "/docs", "/redoc"])
def test_an_unknown_path_is_404(api: httpx.Client, path: str) -> None:
    assert_problem(api.get(path), 404)


@pytest.mark.parametrize(("method", "path"), [("PATCH", JOBS), ("POST", "/livez")])
def test_a_method_that_a_path_does_not_have_is_405(
    api: httpx.Client, method: str, path: str
) -> None:
    answer = api.request(method, path)
    assert_problem(answer, 405)
    assert answer.headers["allow"]
