"""http jobs on a node: the end of the run, and that no secret is stored or logged."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from evenbeat.core.jobs.model import ErrorClass, Run, RunState, State
from evenbeat.handlers.function import FunctionHandler
from evenbeat.handlers.http.addresses import Addresses
from evenbeat.handlers.http.handler import Http
from evenbeat.handlers.http.outbound import OutboundClient
from tests.engine.node_runner import NodeRunner
from tests.support.web import Web, answer_of, web_server

ONCE = {"max_attempts": 1}
CANARY = "canary-4711-wörd"
HERE = Http(OutboundClient(Addresses.of_settings(["127.0.0.1"], allows_private=False)))


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with web_server() as server:
        yield server


async def ran(node_runner: NodeRunner, payload: Any, handler: Any = HERE, **changes: Any) -> Run:
    async with node_runner.node(handler, **changes):
        job = await node_runner.add(kind=handler.kind, payload=payload, policy=ONCE)
        return await node_runner.closed(job)


async def assert_nowhere(node_runner: NodeRunner, canary: str, output: str) -> None:
    """In no table and in no line of the log."""
    tables = await node_runner.fetch(
        "select tablename from pg_tables where schemaname = 'evenbeat' order by 1"
    )
    assert len(tables) >= 8
    for [table] in tables:
        for row in await node_runner.fetch(f"select t::text from evenbeat.{table} as t"):
            assert canary not in row[0], table
    assert canary not in output


async def test_an_answer_is_the_result_of_the_run(node_runner: NodeRunner, web: Web) -> None:
    web.answers["/"] = answer_of(200, b"hello")
    run = await ran(node_runner, {"url": web.url("/")})
    assert (run.state, run.result["body"]) == (RunState.COMPLETED, "hello")


async def test_a_bad_status_fails_the_run(node_runner: NodeRunner, web: Web) -> None:
    run = await ran(node_runner, {"url": web.url("/missing")})
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
    assert "answered 404: nothing here" in (run.error or "")


async def test_a_closed_address_is_final_however_many_attempts_there_are(
    node_runner: NodeRunner, web: Web
) -> None:
    async with node_runner.node(Http(OutboundClient(Addresses()))):
        job = await node_runner.add(kind="http", payload={"url": web.url("/")})
        run = await node_runner.closed(job)
        assert (await node_runner.find(job)).pulse.state is State.FAILED
    assert "127.0.0.1 is at 127.0.0.1, which is not a public address" in (run.error or "")
    assert web.seen == []


async def test_secrets_reach_the_host_and_nothing_else(
    node_runner: NodeRunner, web: Web, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_API_KEY", f"Bearer {CANARY}")
    quoted = f"you sent {CANARY} and Bearer {CANARY}".encode()
    web.answers["/good"] = answer_of(200, quoted, f"Server: {CANARY}".encode().decode("latin-1"))
    web.answers["/bad"] = answer_of(500, quoted)
    payload = {"method": "POST", "json": {"deep": [{"secret": "api-key"}]}}
    for path in ("/good", "/bad"):
        run = await ran(node_runner, payload | {"url": web.url(path)})
        shown = run.result["body"] if path == "/good" else run.error
        assert "you sent (secret) and (secret)" in shown
        assert CANARY in web.seen[-1].body.decode()
    await assert_nowhere(node_runner, CANARY, "".join(capfd.readouterr()))


async def test_a_secret_that_the_excerpt_would_cut_is_masked_whole(
    node_runner: NodeRunner, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_KEY", CANARY)
    web.answers["/"] = answer_of(200, b"x" * 63_992 + CANARY.encode())
    run = await ran(node_runner, {"url": web.url("/"), "method": "POST", "body": {"secret": "key"}})
    assert run.result["body"] == "x" * 63_992 + "(secret)"


async def test_a_url_that_is_secret_as_a_whole_is_masked_in_its_parts(
    node_runner: NodeRunner, web: Web, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_HOOK", web.url("/hook/canary-1234?x=1"))
    web.answers["/hook/canary-1234?x=1"] = answer_of(404, b"no /hook/canary-1234?x=1 here")
    run = await ran(node_runner, {"url": {"secret": "hook"}})
    assert run.error == "GET (secret hook) answered 404: no (secret) here"
    await assert_nowhere(node_runner, "canary-1234", "".join(capfd.readouterr()))


async def test_secrets_come_from_files_too_and_the_environment_wins(
    node_runner: NodeRunner, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("of-the-file\n")
    web.answers["/"] = answer_of(200)
    payload = {"url": web.url("/"), "headers": {"X-Key": {"secret": "key"}}}
    await ran(node_runner, payload, secrets_dir=tmp_path)
    monkeypatch.setenv("EVENBEAT_SECRET_KEY", "of-the-environment")
    await ran(node_runner, payload, secrets_dir=tmp_path)
    sent = [seen.headers["x-key"] for seen in web.seen]
    assert sent == ["of-the-file", "of-the-environment"]


@pytest.mark.parametrize("name", ["nonesuch", "folder", "binary", "empty"])
async def test_a_secret_that_is_not_there_is_final_and_told_by_its_name(
    node_runner: NodeRunner, web: Web, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").write_text("\n")
    async with node_runner.node(HERE, secrets_dir=tmp_path):
        payload = {"url": web.url("/"), "body": {"secret": name}}
        job = await node_runner.add(kind="http", payload=payload)
        run = await node_runner.closed(job)
        assert (await node_runner.find(job)).pulse.state is State.FAILED
    assert f"there is no secret '{name}' on this node" in (run.error or "")
    assert f"EVENBEAT_SECRET_{name.upper()}" in (run.error or "")
    assert web.seen == []


async def test_a_secret_that_no_header_can_hold_is_final_and_not_shown(
    node_runner: NodeRunner, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_KEY", f"{CANARY}\r\nX-Evil: yes")
    run = await ran(node_runner, {"url": web.url("/"), "headers": {"X-Key": {"secret": "key"}}})
    assert run.error == "payload.headers.X-Key: must be one line of text"
    assert web.seen == []


async def test_secrets_are_not_sent_where_a_redirect_leads(
    node_runner: NodeRunner, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_KEY", CANARY.replace("ö", "o"))
    async with web_server() as other:
        web.answers["/"] = answer_of(307, b"", f"Location: {other.url('/')}")
        headers = {"X-Key": {"secret": "key"}}
        run = await ran(
            node_runner, {"url": web.url("/"), "headers": headers, "follow_redirects": 5}
        )
        assert other.seen == []
    assert "the secrets of this job are not sent there" in (run.error or "")


@pytest.mark.parametrize("misuse", ["raises", "returns"])
async def test_a_function_that_tells_its_secrets_is_masked(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch, capfd: Any, misuse: str
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_KEY", CANARY)

    def reveal(payload: Any) -> Any:
        assert payload["key"] == CANARY
        if misuse == "raises":
            # So long that the error is cut in the middle of the secret.
            raise ValueError("x" * 9_980 + payload["key"])
        return {payload["key"]: [payload["key"]]}

    run = await ran(node_runner, {"key": {"secret": "key"}}, FunctionHandler("work", reveal))
    if misuse == "returns":
        assert run.result == {"(secret)": ["(secret)"]}
    await assert_nowhere(node_runner, CANARY[:8], "".join(capfd.readouterr()))


async def test_secrets_asked_for_by_name_are_masked_as_well(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_KEY", CANARY)

    async def reveal(context: Any) -> str:
        return f"it is {context.secrets['key']}"

    run = await ran(node_runner, {}, FunctionHandler("work", reveal))
    assert run.result == "it is (secret)"
