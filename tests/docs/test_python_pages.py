"""The examples of the pages on Python and on tests of your own jobs work as they stand."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from evenbeat import Portal, __all__, define
from evenbeat.config import Settings
from evenbeat.core.jobs.definition import READERS
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database.pool import Database
from tests.support.suites import run_suite
from tests.support.waiting import eventually

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = (DOCS / "reference" / "ops" / "python.md").read_text()
EMBEDDED = (DOCS / "how-to" / "embed-in-your-program.md").read_text()


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def names(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the pages define, on the database of the tests."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    page: dict[str, Any] = {
        "AsyncIterator": AsyncIterator,
        "FastAPI": FastAPI,
        "Portal": Portal,
        "asynccontextmanager": asynccontextmanager,
        "define": define,
        "timedelta": timedelta,
    }
    exec(compile("\n".join(blocks(PAGE + EMBEDDED)), "docs", "exec"), page)
    return page


async def test_the_page_runs_inside_another_program(
    names: dict[str, Any], settings: Settings, database: Database
) -> None:
    eb = names["eb"]
    async with names["lifespan"](names["app"]):
        await names["order"]("atlas")
        await names["plan"]("books")
        async with database.connection() as connection:
            rows = await connection.fetch("select name, kind from evenbeat.job order by id")

        async def completed() -> bool:
            counts = await eb.listing.status_counts()
            return counts.get("completed") == 2

        await eventually(completed, "the two that are due")
    assert [row["name"] for row in rows if row["name"]] == [
        "morning report",
        "count_stock",
        "stock of books",
    ]
    assert len(rows) == 6


def test_the_page_runs_without_await(names: dict[str, Any]) -> None:
    with names["scheduler"]:
        assert names["view"]("atlas").startswith("Paused")


def test_the_page_lists_every_option_and_every_name() -> None:
    table = PAGE.partition("| | |\n")[2].partition("\n\n")[0]
    listed = {
        name
        for row in re.findall(r"^\|(.*?)\|", table, re.MULTILINE)[1:]
        for name in re.findall(r"`(\w+)`", row)
    }
    assert listed == set(READERS)
    told = PAGE.partition("## What has a name")[2].partition("All of it is in")[0]
    assert set(re.findall(r"`(\w+)`", told)) == set(__all__)


HEAD = """
import pytest
from shop import eb, order, stock
from evenbeat import Failed, Portal
from evenbeat.testing.perform import perform

scheduler = Portal(eb)

def view(book):
    scheduler.enqueue("echo", {"book": book})
"""


def test_the_page_of_the_kit_is_a_test_suite(postgres: EmbeddedServer, tmp_path: Path) -> None:
    suite = "\n".join([HEAD, *blocks((DOCS / "how-to" / "test-your-jobs.md").read_text())])
    (tmp_path / "test_page.py").write_text(suite)
    for name in ("shop.py", "pytest.ini"):
        (tmp_path / name).write_text((EXAMPLES / "tested_shop" / name).read_text())
    url = postgres.url("postgres")
    told = run_suite(tmp_path, f"--basetemp={tmp_path / 'suite'}", f"--evenbeat-database={url}")
    assert "3 passed" in told
