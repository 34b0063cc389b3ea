"""The examples of docs/handlers.md do what the page says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.core.jobs.model import RunState
from evenbeat.handlers.http.http_payload import FIELDS
from tests.engine.node_runner import NodeRunner

PAGE = (Path(__file__).parents[3] / "docs" / "handlers.md").read_text()
JOBS: list[dict[str, Any]] = [
    json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
]
RESULTS = {
    "function": 3,
    "report": {"for": "ACME", "attempt": 1},
    "pack": "2 × book",
    "greet": "Hello, world!",
}


@pytest.fixture
def eb(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Evenbeat:
    """The app that the page makes, with the settings of the tests."""
    assert settings.database_url is not None
    monkeypatch.setenv("EVENBEAT_DATABASE_URL", settings.database_url.get_secret_value())
    names: dict[str, Any] = {"index": lambda page: None}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/handlers.md", "exec"), names)
    return names["eb"]


async def test_the_jobs_of_the_page_run(node_runner: NodeRunner, eb: Evenbeat) -> None:
    served = [eb.registry.handler(kind) for kind in eb.registry.served]
    results: dict[str, Any] = {}
    async with node_runner.node(*served):
        for job in JOBS:
            eb.registry[job["kind"]].check(job["payload"])
            if job["kind"] in RESULTS:
                added = await node_runner.add(kind=job["kind"], payload=job["payload"])
                results[job["kind"]] = (await node_runner.closed(added)).result
        call = {"name": "reindex", "args": {"pages": 3}}
        run = await node_runner.closed(await node_runner.add(kind="function", payload=call))
    assert {job["kind"] for job in JOBS} == {"function", "report", "pack", "http", "greet"}
    assert results == RESULTS
    assert (run.state, run.result) == (RunState.COMPLETED, "3 pages")


def test_the_page_names_the_fields_of_an_http_job() -> None:
    table = PAGE.partition("| field |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\|(.*?)\|", table, re.MULTILINE)[1:]) == {
        *(f" `{name}` " for name in FIELDS if name not in ("body", "json")),
        " `body` or `json` ",
    }
