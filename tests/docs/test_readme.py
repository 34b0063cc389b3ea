"""What README.md shows works as it stands: its commands, its program and its SQL, in one go."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

from evenbeat.cli.reference import commands
from evenbeat.store.database.pool import Database
from tests.support.processes import Process
from tests.support.shell import typed

README = (Path(__file__).parents[2] / "README.md").read_text()
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
[PROGRAM] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
[SQL] = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
ADDRESS = "http://127.0.0.1:8060"
FUNCTION = """
create function public.forget_sessions() returns jsonb language sql
as $$ select '{"success": true}'::jsonb $$
"""


async def test_the_first_minute_goes_as_it_says(
    start: Callable[..., Process], checkout: Path, database: Database
) -> None:
    (checkout / "jobs.py").write_text(PROGRAM)
    url = await start("up", EVENBEAT_APP="jobs:eb").ready()
    said = await asyncio.to_thread(typed, SHELL.replace(ADDRESS, url), checkout)
    for words in ("Added hello", "at 08:00 on Monday through Friday", "Run 1 completed"):
        assert words in said
    made, place = json.JSONDecoder().raw_decode(said, said.index('{"id"'))
    assert made["name"] == "crawl the shop"
    assert json.loads(said[place:])["total_jobs"] == 3
    async with database.connection() as connection:
        changing = connection.transaction()
        await changing.start()
        await connection.execute(FUNCTION)
        await connection.execute(SQL)
        rows = await connection.fetch("select name from evenbeat.job order by id")
        await changing.rollback()
    names = ["tick", "hello", "report", "crawl the shop", "nightly clean-up"]
    assert [row["name"] for row in rows] == names


def test_every_command_that_it_names_is_there() -> None:
    known = {f"{name} " for name, _ in commands()}
    named = {f"{words} " for words in re.findall(r"`(evenbeat [a-z][a-z -]*[a-z])", README)}
    assert len(named) > 10
    for words in named:
        is_known = any(name.startswith(words) or words.startswith(name) for name in known)
        assert is_known, words
