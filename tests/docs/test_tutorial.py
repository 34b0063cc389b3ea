"""The first hour goes as the tutorial says: every command of it is typed, in order."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from evenbeat.store.database.pool import Database
from tests.support.processes import Process
from tests.support.shell import typed
from tests.support.waiting import eventually

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial" / "first-hour.md").read_text()
STEPS = re.findall(r'```sh(?: title="(fails)")?\n(.*?)```', PAGE, re.DOTALL)
QUIET = """
select not exists (
    select from evenbeat.pulse where token is not null or due_at <= evenbeat.clock()
)
"""
[PROGRAM] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


async def test_the_first_hour_goes_as_it_says(
    start: Callable[..., Process], checkout: Path, database: Database
) -> None:
    async def nothing_is_due() -> bool:
        async with database.connection() as connection:
            return await connection.fetchval(QUIET)

    (checkout / "shop.py").write_text(PROGRAM)
    await start("up", EVENBEAT_APP="shop:eb").ready()
    said: list[str] = []
    for fails, step in STEPS:
        script = f"if {step.strip()}; then exit 1; fi" if fails else step
        said.append(await asyncio.to_thread(typed, script, checkout))
        await eventually(nothing_is_due, "runs that the step began")
    told = "\n".join(said)
    for words in (
        "Added hello",
        "heartbeat: every 30 minutes",
        "08:00 on Monday through Friday",
        "counting, because of: manual",
        "The retry (attempt 2 of 2) comes in",
        "LookupError: no lamp in stock",
        "nothing found",
        "Deleted 4 jobs",
    ):
        assert words in told
    [shown] = [text for text in said if "ship-lamp" in text and "1 completed, 2 failed" in text]
    assert "completed" in shown
