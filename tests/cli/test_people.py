"""`evenbeat groups`, `dlq` and `stats`, on a database with a dead letter in it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenbeat.core.groups import Group
from evenbeat.core.ids import run_uid
from evenbeat.store.database import Database
from tests.cli.conftest import Command
from tests.control.desk import Desk, due, open_desk

# To start a process for each takes longer than all of them.
SEVERAL = Path(__file__).with_name("programs") / "several.py"
JSON = ("-o", "json")

Call = Callable[..., list[str]]


@pytest.fixture
async def desk(database: Database) -> Desk:
    """`bad` is dead, `good` has the one place of its group, and `late` waits for it."""
    desk = await open_desk(database)
    bad = await desk.add(due("now", name="bad", payload={"n": 1}, policy={"max_attempts": 1}))
    await desk.fail(bad)
    for name in ("good", "late"):
        await desk.add(due("now", name=name, group=Group("site", max_running=1)))
        await desk.take_all()
    return desk


@pytest.fixture
async def letter(desk: Desk) -> str:
    """The id of the dead letter, as people see it."""
    return str(run_uid(await desk.value("select id from evenbeat.dead_letter")))


@pytest.fixture
def call(database: Database, tmp_path: Path) -> Call:
    def call(*commands: tuple[str, ...]) -> list[str]:
        ended = subprocess.run(
            [sys.executable, SEVERAL, json.dumps(commands)],
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "EVENBEAT_DATABASE_URL": database.url,
                "EVENBEAT_CLOCK": "set",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout.splitlines()[-1])

    return call


async def test_groups_are_shown_set_paused_and_resumed(desk: Desk, call: Call) -> None:
    listed, shown, changed, paused, resumed = call(
        ("groups", "list", *JSON),
        ("groups", "show", "site", *JSON),
        ("groups", "set", "site", "--max-running", "3", "--rate", "5/m", *JSON),
        ("groups", "pause", "site", *JSON),
        ("groups", "resume", "site"),
    )
    [group] = json.loads(listed)
    assert (group["key"], group["max_running"]) == ("site", 1)
    assert (group["running"], group["waiting"]) == (1, 1)
    members: list[Any] = json.loads(shown)["members"]
    assert [(each["name"], each["doing"]) for each in members] == [
        ("good", "runs"),
        ("late", "waits"),
    ]
    [after] = json.loads(changed)
    assert (after["max_running"], after["rate"], after["waiting"]) == (3, "5/1m", 0)
    assert json.loads(paused)[0]["paused_at"] is not None
    assert resumed.split()[-7:-4] == ["site", "3", "5/1m"]
    entries = await desk.audit()
    assert [entry.action for entry in entries] == ["resume_group", "pause_group", "put_group"]
    assert entries[0].actor.name.startswith("cli")


async def test_dead_letters_are_listed_shown_and_seen_to(
    desk: Desk, letter: str, call: Call
) -> None:
    listed, grouped, shown, dry, done, requeued, left = call(
        ("dlq", "list", "--state", "open", *JSON),
        ("dlq", "groups", *JSON),
        ("dlq", "show", letter, *JSON),
        ("dlq", "ack", "--job", "bad", "--dry-run", *JSON),
        ("dlq", "ack", "--job", "bad", "--owner", "ops", "--yes", *JSON),
        ("dlq", "requeue", letter, "--payload", '{"n": 2}', *JSON),
        ("dlq", "list"),
    )
    [row] = json.loads(listed)
    assert (row["id"], row["job"], row["error"]) == (letter, "bad", "out of order")
    [group] = json.loads(grouped)
    assert (group["signature"], group["count"]) == ("out of order", 1)
    facts = json.loads(shown)
    assert (facts["payload"], len(facts["runs"])) == ({"n": 1}, 1)
    assert json.loads(dry) == [{"id": letter, "done": "would acknowledge"}]
    assert json.loads(done) == [{"id": letter, "done": "acknowledge"}]
    [again] = json.loads(requeued)
    made = await desk.value("select uid from evenbeat.job where payload = '{\"n\": 2}'")
    assert again == {"id": letter, "requeued_as": str(made)}
    assert "requeued" in left.splitlines()[1]


async def test_letters_are_requeued_and_discarded_by_what_they_have_in_common(
    desk: Desk, letter: str, call: Call
) -> None:
    again, shown = call(
        ("dlq", "requeue", "--signature", "out of order", "--note", "the disk", "--yes", *JSON),
        ("dlq", "show", letter),
    )
    assert json.loads(again) == [{"id": letter, "done": "requeue"}]
    assert "the disk" in shown
    bad = await desk.jobs.get(await desk.value("select uid from evenbeat.job where name = 'bad'"))
    await desk.fail(bad)
    [gone] = call(("dlq", "discard", "--kind", "echo", "-y", *JSON))
    assert [each["done"] for each in json.loads(gone)] == ["discard"]


@pytest.mark.parametrize("action", ["requeue", "discard"])
async def test_letters_that_somebody_has_seen_are_chosen_like_others(
    desk: Desk, letter: str, call: Call, action: str
) -> None:
    seen, none, listed, no_owner, done, over = call(
        ("dlq", "ack", "--job", "bad", "--owner", "ops", "--yes", *JSON),
        ("dlq", action, "--job", "bad", "--state", "open", "--yes", *JSON),
        ("dlq", "list", "--owned-by", "ops", "--state", "open", "--state", "acknowledged", *JSON),
        ("dlq", "list", "--owned-by", "dev", *JSON),
        ("dlq", action, "--owned-by", "ops", "--kind", "echo", "--yes", *JSON),
        ("dlq", action, "--job", "bad", "--yes", *JSON),
    )
    assert json.loads(seen) == [{"id": letter, "done": "acknowledge"}]
    assert [each["id"] for each in json.loads(listed)] == [letter]
    assert json.loads(done) == [{"id": letter, "done": action}]
    assert [json.loads(each) for each in (none, no_owner, over)] == [[], [], []]


async def test_nothing_is_done_to_letters_that_nobody_named(
    desk: Desk, evenbeat: Command, refuses: Callable[..., str]
) -> None:
    url = desk.database.url
    said = refuses(evenbeat("dlq", "discard", EVENBEAT_DATABASE_URL=url))
    assert "choose them by --job" in said
    payload = ("--job", "bad", "--payload", "1")
    said = refuses(evenbeat("dlq", "requeue", *payload, EVENBEAT_DATABASE_URL=url))
    assert "goes with one letter" in said
    assert await desk.value("select count(*) from evenbeat.audit") == 0


async def test_letters_are_asked_about_before_they_end_or_where_nobody_named_them(
    desk: Desk, letter: str, evenbeat: Command
) -> None:
    url = desk.database.url
    for words in (("discard", letter), ("ack", "--job", "bad"), ("requeue", "--kind", "echo")):
        ended = evenbeat("dlq", *words, EVENBEAT_DATABASE_URL=url)
        assert (ended.returncode, ended.stdout.strip()) == (1, ""), words
        assert "1 dead letter?" in ended.stderr
    assert await desk.value("select count(*) from evenbeat.audit") == 0
    agreed = evenbeat("dlq", "discard", letter, typed="y\n", EVENBEAT_DATABASE_URL=url)
    assert agreed.returncode == 0, agreed
    assert await desk.value("select ending from evenbeat.dead_letter") is not None


async def test_a_letter_that_is_not_there_is_told_and_nothing_is_done_to_others(
    desk: Desk, letter: str, evenbeat: Command, refuses: Callable[..., str]
) -> None:
    url, missing = desk.database.url, str(run_uid(4711))
    for option in ("--yes", "--dry-run"):
        ended = evenbeat("dlq", "ack", letter, missing, option, EVENBEAT_DATABASE_URL=url)
        assert f"no dead letter {missing}" in refuses(ended)
        assert ended.stdout == ""
    payload = ("--payload", "123456789012345678901")
    said = refuses(evenbeat("dlq", "requeue", letter, *payload, EVENBEAT_DATABASE_URL=url))
    assert "more than 64 bits" in said
    said = refuses(evenbeat("dlq", "ack", letter, "--job", "x", EVENBEAT_DATABASE_URL=url))
    assert "not both" in said
    assert await desk.value("select count(*) from evenbeat.audit") == 0


async def test_a_dry_run_ends_as_the_command_would_where_a_letter_refuses(
    desk: Desk, letter: str, evenbeat: Command
) -> None:
    url = desk.database.url
    assert evenbeat("dlq", "ack", letter, EVENBEAT_DATABASE_URL=url).returncode == 0
    for option in ("--yes", "--dry-run"):
        ended = evenbeat("dlq", "ack", letter, option, EVENBEAT_DATABASE_URL=url)
        assert (ended.returncode, "refused: cannot acknowledge" in ended.stdout) == (1, True)
        assert ended.stderr == "Nothing is done while one refuses.\n"


async def test_statistics_are_shown_at_once_and_by_day(desk: Desk, call: Call) -> None:
    everything, table, by_day = call(
        ("stats", *JSON), ("stats", "--group", "site"), ("stats", "--days", "2", *JSON)
    )
    stats = json.loads(everything)
    assert stats["activity"] == {"active": 3, "paused": 0, "disabled": 0}
    assert (stats["runs"]["failed"], stats["runs"]["success_rate"]) == (1, "0.0%")
    assert stats["dead_letters"] == {"total": 1, "unacknowledged": 1}
    words = {" ".join(line.split()[:-1]): line.split()[-1] for line in table.splitlines()}
    assert (words["jobs active"], words["runs failed"], words["dead letters"]) == ("2", "0", "0")
    days = json.loads(by_day)
    assert [(day["day"], day["failed"]) for day in days] == [("2029-12-31", 0), ("2030-01-01", 1)]


async def test_statistics_of_one_job_are_shown_at_once_and_by_day(
    desk: Desk, letter: str, call: Call
) -> None:
    at_once, table, by_day = call(
        ("stats", "--job", "bad", *JSON),
        ("stats", "--job", "bad"),
        ("stats", "--job", "bad", "--days", "2", *JSON),
    )
    facts = json.loads(at_once)
    assert (facts["failed_runs"], facts["success_rate"]) == (1, 0)
    assert facts["dead_letters"] == {"total": 1, "unacknowledged": 1}
    words = {" ".join(line.split()[:-1]): line.split()[-1] for line in table.splitlines()}
    assert (words["failed runs"], words["dead letters not acknowledged"]) == ("1", "1")
    assert [day["day"] for day in json.loads(by_day)] == ["2029-12-31", "2030-01-01"]
