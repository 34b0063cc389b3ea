"""The examples of docs/reference/ops/tasks.md work as they stand."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

from evenbeat.api.tasks.wire import STATES
from evenbeat.core.jobs.model import State
from tests.support.processes import Process
from tests.support.shell import typed

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "ops" / "tasks.md").read_text()
CREATE, CALLS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
[ANSWER] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)


async def test_the_examples_of_the_page_are_answered_as_it_says(
    start: Callable[..., Process],
) -> None:
    url = await start("server", EVENBEAT_AUTH="off").ready()
    task = json.loads(await asyncio.to_thread(typed, CREATE, B=url))
    assert task == json.loads(ANSWER) | {"id": task["id"]}
    told = [
        json.loads(await asyncio.to_thread(typed, line, B=url, ID=task["id"]) or "null")
        for line in CALLS.splitlines()
    ]
    [listed], read, as_text, attempts, canceled, health = told
    assert listed["id"] == read["id"] == task["id"]
    assert as_text["payload"] == '{"message":"hello"}'
    assert (attempts, canceled, health["status"]) == ([], None, "UP")


def test_the_table_of_statuses_is_that_of_the_code() -> None:
    _, _, table = PAGE.partition("| status | the job is |")
    for status, states in STATES.items():
        [row] = re.findall(rf"\| `{status}` \| (.*) \|", table.partition("\n\n")[0])
        assert {*re.findall(r"[a-z]+", row)} & {*State} == states
