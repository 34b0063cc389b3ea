"""What strangers send: always an answer that names the fault, never an error of ours."""

import gzip
import itertools
import json
import socket

import httpx2 as httpx
import pytest

from tests.support.serving import assert_problem, assert_refused

JOBS = "/api/v1/jobs"
HUGE = "9" * 5_000
MEGABYTE = 1_000_000


def send(api: httpx.Client, body: str | bytes) -> httpx.Response:
    return api.post(JOBS, content=body, headers={"content-type": "application/json"})


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


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


TEXTS = ["", "\x00", "a\x00b", "\ud800", "x\udfff", 7, 1.5, True, None, [], {}, ["echo"]]
WHOLE_NUMBERS = [
    *(-1, 10**4, 2**31, 2**63, 10**30, -(10**30), 1.5, 1e308),
    *("1", "", True, False, None, [], {}),
]
PAYLOADS = [
    "\x00",
    {"a": "\x00"},
    {"\x00": 1},
    {"a": [{"b": "\ud800"}]},
    {"\ud800": 1},
    2**63,
    -(2**64),
    {"a": 10**30},
    float("nan"),
    [float("inf")],
    {"a": {"b": float("-inf")}},
    json.loads(nested(100)),
]
SCHEDULES = [
    *(
        "",
        7,
        1.5,
        True,
        False,
        [],
        ["every 30m"],
        {},
        "\x00",
        "\ud800",
        "every",
        "every 0s",
        "every -5m",
    ),
    *("every 5 parsecs", "every 11y", "every 4000d", "every 1.5s", "every NaN", "every 1e9s"),
    *("every 99999999999999999999s", "every ３０m", "sometimes", "x" * 100_000, " " * 300),
    *("* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *"),
    *("*/0 * * * *", "0 0 31 2 *", "0 0 30 2 *", "R R R R R"),
    *("０ ０ * * *", "0 0 * * MOON", "@reboot", "@fortnightly", "0 0 * * * Mars/Olympus"),
    *("0 0 * * * ../../etc/passwd", "daily 25:00", "daily 06:00 America", "weekly never 02:00"),
    *(
        "hourly :60",
        "daily 06:00 " + "x" * 5_000,
        "once",
        "once tomorrow",
        "once 2026-02-30T00:00Z",
    ),
    *("once 1999-12-31T23:59:59Z", "once 9999-12-31T23:59:59-14:00", "once infinity"),
    *("once 2200-01-02T00:00:00Z", "once 2026-13-01T00:00:00Z", "once -0001-01-01T00:00:00Z"),
    *("every 30m phase=banana", "every 30m zone=UTC", "every 30m frequency=2", "every 5m every 6m"),
    *({"every": None}, {"every": []}, {"every": True}, {"every": -1}, {"every": 0}),
    *({"every": 1e400}, {"every": 10**30}, {"every": "30m", "cron": "* * * * *"}),
    *({"every": "30m", "zone": "UTC"}, {"every": "30m", "colour": "red"}, {"yearly": 1}),
    *({"cron": "* * * * *", "zone": "../../etc/passwd"}, {"cron": "* * * * *", "zone": "America"}),
    *({"cron": "* * * * *", "zone": "\x00"}, {"cron": "* * * * *", "zone": 7}, {"cron": 7}),
    *({"cron": "* * * * *", "dst": "maybe"}, {"cron": "* * * * *", "dst": {"gap": []}}),
    *({"cron": "0 0 31 2 *"}, {"daily": "06:00", "zone": "Nowhere"}, {"daily": {}}),
    *({"weekly": "sun"}, {"hourly": 60}, {"hourly": "x"}, {"hourly": True}, {"once": 7}),
    *({"once": "2026-02-30T00:00:00Z"}, {"once": "9999-12-31T23:59:59-14:00"}, {"now": False}),
    *({"once": "2020-01-01T00:00:00", "zone": "Nowhere"}, {"\ud800": 1}, {"": 1}, {"\x00": 1}),
    *({"every": {"every": "30m"}}, {"cron": ["*", "*"]}, {"every": "30m", "phase": -1}),
]
LABELS = [
    *(7, True, None, "red", [], ["red"], {"": "x"}, {"x": ""}, {"a": 1}, {"a": None}, {"a": {}}),
    *({"\x00": "x"}, {"x": "\x00"}, {"\ud800": "x"}, {"x": "\ud800"}, {"x" * 101: "x"}),
    *({"x": "x" * 101}, {str(number): "x" for number in range(51)}),
]
TIMEOUTS = [
    *("", "0s", 0, -1, 10**30, 1.5, 1e400, True, [], {}, "soon", "5 parsecs", "31d", "\x00"),
    *("\ud800", "1.5s", "９s", "9" * 5_000, float("nan")),
]

CORPUS: dict[str, list[object]] = {
    "kind": [*TEXTS, "x" * 101, "x" * 100_000, "nonesuch", "ECHO", " echo", "echo "],
    "name": [
        *(text for text in TEXTS if text is not None),
        *(" ", "\t\n", "x" * 201, "x" * 100_000),
    ],
    "payload": PAYLOADS,
    "schedule": SCHEDULES,
    "priority": [*WHOLE_NUMBERS, 101, -(2**31) - 1],
    "labels": LABELS,
    "max_attempts": [*WHOLE_NUMBERS, 0, 1001],
    "timeout": TIMEOUTS,
}
STRANGE = [*TEXTS, *WHOLE_NUMBERS, *PAYLOADS, {"every": []}, {"a": {}}]


@pytest.mark.parametrize("field", CORPUS)
def test_every_wrong_value_of_a_field_is_422_and_names_the_field(
    api: httpx.Client, field: str
) -> None:
    for value in CORPUS[field]:
        answer = send(api, json.dumps({"kind": "echo", field: value}))
        try:
            assert_refused(answer, field)
        except AssertionError as error:
            raise AssertionError(f"{field} = {repr(value)[:200]}: {error}") from error


def test_nothing_from_the_corpus_is_an_error_of_ours_in_any_field(api: httpx.Client) -> None:
    fields = [*CORPUS, "id", "\x00", "\ud800", ""]
    for field, value in itertools.product(fields, STRANGE):
        answer = send(api, json.dumps({"kind": "echo", field: value}))
        assert answer.status_code in (201, 409, 422), f"{field} = {value!r}: {answer.text[:500]}"


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
