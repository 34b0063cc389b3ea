"""`evenbeat db backup` and `restore`, as people call them."""

import json
from pathlib import Path

from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.core.jobs.model import Definition
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Database


async def test_a_backup_goes_into_one_file_and_comes_back_elsewhere(
    evenbeat, refuses, settings: Settings, database: Database, own_url: str, tmp_path: Path
) -> None:
    async with Evenbeat(settings) as eb:
        await eb.jobs.add(Definition("echo", Timetable(parse_schedule("every 1h")), name="hourly"))
    here, there = {"EVENBEAT_DATABASE_URL": database.url}, {"EVENBEAT_DATABASE_URL": own_url}
    made = evenbeat("db", "backup", "all.zip", "-o", "json", **here)
    assert (made.returncode, made.stderr) == (0, "")
    assert json.loads(made.stdout)["tables"]["job"] == 1
    back = evenbeat("db", "restore", "all.zip", "-o", "json", **there)
    told = json.loads(back.stdout)
    assert (back.returncode, told["tables"]["job"], told["breaches"]) == (0, 1, [])
    assert "or audit entries in this database" in refuses(
        evenbeat("db", "restore", "all.zip", **there)
    )
    asked = evenbeat("db", "restore", "all.zip", "--replace", typed="n\n", **there)
    assert (asked.returncode, "Delete every job" in asked.stderr) == (1, True)
