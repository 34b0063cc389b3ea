"""The examples of docs/how-to/schedule-sql-functions.md work as they stand, one after the other."""

import re
from pathlib import Path

import asyncpg

from evenbeat.control.ops.verify import verify
from evenbeat.store.database.pool import Database

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "schedule-sql-functions.md").read_text()
STEPS = re.findall(r'```sql title="(\w+)"\n(.*?)```', PAGE, re.DOTALL)


async def test_from_nothing_to_a_nightly_clean_up(database: Database) -> None:
    owner = await asyncpg.connect(database.url)
    try:
        await owner.execute("drop role if exists app")
        for who, text in STEPS:
            if who == "app":
                await owner.execute("set session authorization app")
            await owner.execute(text)
            await owner.execute("reset session authorization")
        run = await owner.fetchrow("select state, result from evenbeat.run")
        assert run["state"] == b"c"
        assert "0 sessions forgotten" in run["result"]
        assert await owner.fetchval("select count(*) from metadata.scheduled_jobs") == 0
        assert await verify(database) == []
    finally:
        await owner.execute("drop owned by app")
        await owner.execute("drop role app")
        await owner.close()


def test_the_page_has_its_steps() -> None:
    assert [who for who, _ in STEPS] == ["owner", "app", "app", "app"]
