"""`evenbeat doctor` and `evenbeat runs export`, as people and programs call them."""

import csv
import io
import json
from pathlib import Path

from evenbeat.store.database.pool import Database

WORLD = (Path(__file__).parents[2] / "verify" / "world.sql").read_text()


async def test_the_doctor_tells_programs_and_people_and_ends_with_1(
    evenbeat, environ: dict[str, str], database: Database, own_url: str
) -> None:
    ended = evenbeat("doctor", "-o", "json", **environ)
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["is_healthy"]) == (1, False)
    assert {each["check"] for each in told["findings"]} == {"storage", "nodes"}
    assert all(each["advice"] and each["what"] for each in told["findings"])
    bare = evenbeat("doctor", "--quick", EVENBEAT_DATABASE_URL=own_url)
    assert (bare.returncode, bare.stdout) == (
        1,
        "WRONG  schema: is not the one that this version needs\n"
        "         run `evenbeat db migrate`\n",
    )


async def test_runs_are_exported_to_standard_output_and_into_files(
    evenbeat, refuses, environ: dict[str, str], database: Database, tmp_path: Path
) -> None:
    async with database.connection() as connection:
        await connection.execute(WORLD)
        await connection.execute("update evenbeat.run set error = '=1+1' where id = 5")
    ended = evenbeat("runs", "export", "--state", "failed", "--state", "skipped", **environ)
    assert (ended.returncode, ended.stderr) == (0, "Exported 4 runs.\n")
    rows = list(csv.DictReader(io.StringIO(ended.stdout)))
    assert [row["state"] for row in rows] == ["skipped", "failed", "failed", "failed"]
    assert rows[1]["error"] == "'=1+1"
    filters = ("--since", "2030-01-01T12:02Z", "--until", "2030-01-01T12:03Z")
    file = ("--format", "ndjson", "--to", "runs.ndjson")
    ended = evenbeat("runs", "export", *filters, *file, **environ)
    assert (ended.returncode, ended.stdout) == (0, "")
    told = [json.loads(line) for line in (tmp_path / "runs.ndjson").read_text().splitlines()]
    assert [each["number"] for each in told] == [2, 3, 3]
    said = refuses(evenbeat("runs", "export", *file, **environ))
    assert said == "runs.ndjson: cannot be written: File exists"
