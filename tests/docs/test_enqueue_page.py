"""The examples of the pages on adding jobs work as they stand."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.control.ops.verify import verify
from evenbeat.store.database.pool import Database

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
PAGE = "\n".join(
    (HOW_TO / name).read_text() for name in ("add-jobs.md", "enqueue-in-a-transaction.md")
)
PYTHON = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
SQL = "\n".join(re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
async def eb(settings: Settings) -> AsyncIterator[Evenbeat]:
    async with Evenbeat(settings) as app:
        await app.prepare_kinds()
        yield app


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Any]:
    connected = await asyncpg.connect(database.url)
    await connected.execute("create temporary table orders (item text)")
    yield connected
    await connected.close()


async def test_the_python_examples_do_what_they_say(
    eb: Evenbeat, database: Database, connection: Any
) -> None:
    page: dict[str, Any] = {}
    exec(compile(PYTHON, "docs/how-to", "exec"), page)
    await page["add_some"](eb)
    await page["welcome"](eb, 7)
    await page["add_many"](eb)
    await page["deploy"](eb)
    await page["order"](eb, connection)
    assert await connection.fetchval("select count(*) from orders") == 1
    stored = await connection.fetchval("select count(*) from evenbeat.job")
    assert stored == 1 + 1 + 2000 + 1 + 1
    assert await verify(database) == []


async def test_the_sql_examples_do_what_they_say(
    eb: Evenbeat, database: Database, connection: Any
) -> None:
    await connection.execute(SQL)
    rows = await connection.fetch("select name, kind from evenbeat.job order by id")
    assert [tuple(row) for row in rows] == [(None, "echo"), ("remind of the lamp", "echo")]
    assert await connection.fetchval("select max_running from evenbeat.job_group") == 3
    assert await verify(database) == []
