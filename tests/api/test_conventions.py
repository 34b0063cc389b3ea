"""What every request and every answer has: an id, safe headers, conditions, limits."""

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.exceptions import HTTPException

from evenbeat.core.ops.access import Role
from evenbeat.web.request_limits import BodyLimit
from tests.support.processes import Process
from tests.support.serving import (
    SECRET,
    assert_problem,
    client_of,
    server_environ,
    serving,
    token_for,
)

JOBS = "/api/v1/jobs"
JOB = {"kind": "echo", "schedule": "once 2100-01-01T00:00:00Z"}
UNKNOWN = f"{JOBS}/01890000-0000-7000-8000-000000000000"


class TestRequestIds:
    @pytest.mark.parametrize("sent", ["abc", "0d5c-6f_5b.7", "x" * 128])
    def test_a_sane_one_is_kept(self, api: httpx.Client, sent: str) -> None:
        answer = api.get(UNKNOWN, headers={"x-request-id": sent})
        assert answer.headers["x-request-id"] == sent
        assert assert_problem(answer, 404)["request_id"] == sent

    @pytest.mark.parametrize("sent", [None, "", "x" * 129, "a b", "a;b", '"', "{}", "é", "<b>"])
    def test_any_other_is_replaced(self, api: httpx.Client, sent: str | None) -> None:
        headers = {} if sent is None else {"x-request-id": sent.encode()}
        answer = api.get(UNKNOWN, headers=headers)
        made = answer.headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{32}", made)
        assert assert_problem(answer, 404)["request_id"] == made

    def test_each_request_has_another_one(self, api: httpx.Client) -> None:
        made = {api.get("/livez").headers["x-request-id"] for _ in range(20)}
        assert len(made) == 20

    async def test_it_is_in_every_log_line_of_the_request(
        self, database_url: str, tmp_path: Path
    ) -> None:
        more = {"EVENBEAT_LOG_FORMAT": "json", "EVENBEAT_LOG_LEVEL": "debug"}
        environ = server_environ(database_url, tmp_path / "home") | more
        process = Process("server", environ=environ, cwd=tmp_path)
        try:
            await process.says("Evenbeat is ready")
            url = next(line["url"] for line in lines(process) if "url" in line)
            with client_of(url, token_for(Role.OPERATOR)) as client:
                client.post(f"{JOBS}?secret=canary", json=JOB, headers={"x-request-id": "mine"})
            await process.says("Request answered")
        finally:
            process.kill()
        marked = [line for line in lines(process) if line.get("request_id") == "mine"]
        assert [line["event"] for line in marked] == ["Job created", "Request answered"]
        assert (marked[1]["method"], marked[1]["path"], marked[1]["status"]) == ("POST", JOBS, 201)
        assert marked[1]["level"] == "debug"
        assert "canary" not in process.output
        assert SECRET not in process.output


def lines(process: Process) -> list[dict[str, str]]:
    return [json.loads(line) for line in process.output.splitlines() if line.startswith("{")]


class TestHeaders:
    @pytest.mark.parametrize("path", ["/livez", "/openapi.json", UNKNOWN, "/nonesuch"])
    def test_every_answer_is_safe_in_a_browser(self, api: httpx.Client, path: str) -> None:
        headers = api.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in headers

    def test_another_site_may_not_ask(self, api: httpx.Client) -> None:
        asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
        answer = api.options(JOBS, headers=asked)
        assert_problem(answer, 405)
        assert not [name for name in answer.headers if name.startswith("access-control")]

    def test_a_head_is_the_get_without_its_body(self, api: httpx.Client) -> None:
        job = api.post(JOBS, json=JOB).json()
        whole, head = (api.request(verb, f"{JOBS}/{job['id']}") for verb in ("GET", "HEAD"))
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["etag"] == whole.headers["etag"]
        assert head.headers["content-length"] == whole.headers["content-length"]
        assert api.head(UNKNOWN).status_code == 404

    def test_a_wrong_method_is_told_all_the_right_ones(self, admin: httpx.Client) -> None:
        answer = admin.put("/api/v1/tokens")
        assert_problem(answer, 405)
        assert answer.headers["allow"] == "GET, HEAD, POST"

    def test_what_is_wrong_with_a_sign_in_comes_with_how_to_do_it(
        self, stranger: httpx.Client
    ) -> None:
        assert stranger.get(UNKNOWN).headers["www-authenticate"] == "Bearer"

    @pytest.mark.parametrize("host", ["[::1", "a b", "x:y:z", "]", "evil.example", "x" * 5_000])
    def test_a_host_that_is_none_of_ours_changes_nothing(
        self, api: httpx.Client, host: str
    ) -> None:
        assert_problem(api.get(UNKNOWN, headers={"host": host}), 404)
        assert api.post(JOBS, json=JOB, headers={"host": host}).status_code == 201

    def test_two_tokens_are_none(self, stranger: httpx.Client) -> None:
        good = f"Bearer {token_for(Role.ADMIN)}"
        for pair in ([good, good], [good, "Bearer x"], ["Bearer x", good]):
            answer = stranger.get(UNKNOWN, headers=[("authorization", each) for each in pair])
            assert assert_problem(answer, 401)["error"] == "invalid token"

    def test_a_token_in_the_query_is_none(self, stranger: httpx.Client) -> None:
        token = token_for(Role.ADMIN)
        for name in ("token", "access_token"):
            answer = stranger.get(UNKNOWN, params={name: token})
            assert assert_problem(answer, 401)["error"] == "missing authorization"


@pytest.fixture(scope="module")
def admin(address: str) -> Iterator[httpx.Client]:
    with client_of(address, token_for(Role.ADMIN)) as client:
        yield client


class TestConditions:
    def test_a_job_has_a_strong_tag_with_its_version(self, api: httpx.Client) -> None:
        created = api.post(JOBS, json=JOB)
        found = api.get(created.headers["location"])
        for answer in (created, found):
            assert re.fullmatch(r'"1-[0-9a-f]{16}"', answer.headers["etag"])

    def test_what_the_client_has_is_not_sent_again(self, api: httpx.Client) -> None:
        place = api.post(JOBS, json=JOB).headers["location"]
        tag = api.get(place).headers["etag"]
        for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            answer = api.get(place, headers={"if-none-match": known})
            assert (answer.status_code, answer.content) == (304, b"")
            assert answer.headers["etag"] == tag
            assert "content-type" not in answer.headers
        for other in ('"1"', '"x"', tag.strip('"'), ""):
            assert api.get(place, headers={"if-none-match": other}).status_code == 200

    def test_an_error_is_always_sent(self, api: httpx.Client) -> None:
        assert api.get(UNKNOWN, headers={"if-none-match": "*"}).status_code == 404


@pytest.fixture(scope="module")
def slow_address(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where one may ask once in a while only: 2 requests a second, 10 saved up."""
    place = tmp_path_factory.mktemp("slow")
    environ = server_environ(database_url, place / "home") | {"EVENBEAT_RATE_LIMIT": "2"}
    with serving("server", environ, place) as url:
        yield url


class TestRates:
    def test_too_many_requests_are_429_with_when_to_come_back(self, slow_address: str) -> None:
        with client_of(slow_address, token_for(Role.OPERATOR)) as client:
            answers = [client.get(UNKNOWN) for _ in range(40)]
            refused = [answer for answer in answers if answer.status_code == 429]
            assert {answer.status_code for answer in answers[:10]} == {404}
            assert len(refused) > 10
            assert_problem(refused[-1], 429)
            assert 1 <= int(refused[-1].headers["retry-after"]) <= 5
            assert answers[0].headers["ratelimit-policy"] == '"caller";q=10;w=5'
            assert answers[0].headers["ratelimit"].startswith('"caller";r=9;')
            assert {client.get("/livez").status_code for _ in range(40)} == {200}

    def test_one_callers_haste_is_nobody_elses(self, slow_address: str) -> None:
        with client_of(slow_address, token_for(Role.VIEWER)) as hasty:
            assert 429 in {hasty.get(UNKNOWN).status_code for _ in range(40)}
        with client_of(slow_address, token_for(Role.VIEWER)) as other:
            assert other.get(UNKNOWN).status_code == 404, "another token is another caller"

    def test_failed_sign_ins_are_counted_by_address_and_lock_nobody_out(
        self, slow_address: str
    ) -> None:
        with client_of(slow_address, "garbage") as stranger:
            codes = [stranger.get(UNKNOWN).status_code for _ in range(20)]
        assert codes[0] == 401
        assert codes[-1] == 429
        with client_of(slow_address, token_for(Role.ADMIN)) as client:
            assert client.get(UNKNOWN).status_code == 404


def test_a_body_that_never_ends_does_not_keep_the_server_from_others(address: str) -> None:
    place = (httpx.URL(address).host, httpx.URL(address).port or 80)
    with socket.create_connection(place, timeout=30) as connection:
        connection.sendall(
            b"POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n"
            b"content-type: application/json\r\n\r\n{"
        )
        with client_of(address, None) as client:
            assert client.get("/livez").status_code == 200


@pytest.fixture(scope="module")
def open_address(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("open")
    environ = server_environ(database_url, place / "home") | {"EVENBEAT_AUTH": "off"}
    with serving("server", environ, place) as url:
        yield url


class TestAuthOff:
    """Pages of other sites, in the browser of somebody who runs this on their own machine."""

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:1"},
            {"host": "evil.example"},
            {"host": "127.0.0.1.evil.example"},
            {"host": "192.0.2.1"},
            {"host": "[::1"},
        ],
        ids=str,
    )
    def test_they_are_refused(self, open_address: str, headers: dict[str, str]) -> None:
        with client_of(open_address, None) as client:
            answer = client.post(JOBS, json=JOB, headers=headers)
        assert answer.status_code in (400, 403)

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:8060", "[::1]:8060"])
    def test_our_own_pages_and_programs_are_not(self, open_address: str, host: str) -> None:
        with client_of(open_address, None) as client:
            for more in ({}, {"origin": f"http://{host}"}):
                answer = client.post(JOBS, json=JOB, headers={"host": host, **more})
                assert answer.status_code == 201


async def test_the_end_of_a_body_that_does_not_come_is_408() -> None:
    parts = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> dict:
        return parts.pop() if parts else await asyncio.get_running_loop().create_future()

    async def read(scope: dict, receive, send) -> None:
        while (await receive())["more_body"]:
            continue

    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    with pytest.raises(HTTPException) as caught:
        await BodyLimit(read, slowest=0.01)(scope, receive, receive)
    assert caught.value.status_code == 408
