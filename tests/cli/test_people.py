"""`evenbeat groups`, `dlq` and `stats`, on a database with a dead letter in it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from evenbeat.core.groups import Group
from evenbeat.core.ids import run_uid
from evenbeat.store.database import Database
from tests.cli.conftest import Command
from tests.control.desk import Desk, due, open_desk

Call = Callable[..., Any]


@pytest.fixture
async def desk(database: Database) -> Desk:
    """Two jobs of one name each: `bad` is dead, `good` has its place and `late` waits for one."""
    desk = await open_desk(database)
    group = Group("site", max_running=1)
    bad = await desk.add(due("now", name="bad", payload={"n": 1}, policy={"max_attempts": 1}))
    await desk.fail(bad)
    for name in ("good", "late"):
        await desk.add(due("now", name=name, group=group))
        await desk.take_all()
    return desk


@pytest.fixture
def call(evenbeat: Command, database: Database) -> Call:
    """Calls a command and reads the JSON it prints."""

    def call(*arguments: str, reads: bool = True) -> Any:
        environ = {"EVENBEAT_DATABASE_URL": database.url, "EVENBEAT_CLOCK": "set"}
        options = ("-o", "json") if reads else ()
        ended = evenbeat(*arguments, *options, **environ)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout) if reads else ended.stdout

    return call


async def test_groups_are_shown_set_paused_and_resumed(desk: Desk, call: Call) -> None:
    [group] = call("groups", "list")
    assert (group["key"], group["max_running"], group["running"]) == ("site", 1, 1)
    assert group["waiting"] == 1
    members = call("groups", "show", "site")["members"]
    assert [(each["name"], each["doing"]) for each in members] == [
        ("good", "runs"),
        ("late", "waits"),
    ]
    [changed] = call("groups", "set", "site", "--max-running", "3", "--rate", "5/m")
    assert (changed["max_running"], changed["rate"], changed["waiting"]) == (3, "5/1m", 0)
    assert call("groups", "pause", "site")[0]["paused_at"] is not None
    assert "5/1m" in call("groups", "resume", "site", reads=False)
    entries = await desk.audit()
    assert [entry.action for entry in entries] == ["resume_group", "pause_group", "put_group"]
    assert entries[0].actor.name.startswith("cli")


async def test_dead_letters_are_listed_shown_and_seen_to(desk: Desk, call: Call) -> None:
    [letter] = call("dlq", "list", "--state", "open")
    assert (letter["job"], letter["error"], letter["state"]) == ("bad", "out of order", "open")
    [group] = call("dlq", "groups")
    assert (group["signature"], group["count"]) == ("out of order", 1)
    shown = call("dlq", "show", letter["id"])
    assert (shown["payload"], len(shown["runs"])) == ({"n": 1}, 1)
    [dry] = call("dlq", "ack", "--job", "bad", "--dry-run")
    assert dry == {"id": letter["id"], "done": "would acknowledge"}
    [done] = call("dlq", "ack", "--job", "bad", "--owner", "ops")
    assert done["done"] == "acknowledge"
    [requeued] = call("dlq", "requeue", letter["id"], "--payload", '{"n": 2}')
    assert requeued["requeued_as"] is not None
    assert call("dlq", "list", "--state", "requeued")[0]["id"] == letter["id"]


async def test_a_letter_is_discarded_by_its_id(desk: Desk, call: Call) -> None:
    [letter] = await desk.fetch("select id from evenbeat.dead_letter")
    uid = str(run_uid(letter["id"]))
    assert uid in call("dlq", "show", uid, reads=False)
    assert call("dlq", "discard", uid) == [{"id": uid, "done": "discard"}]


async def test_nothing_is_done_to_letters_that_nobody_named(
    desk: Desk, evenbeat: Command, refuses: Callable[..., str]
) -> None:
    url = desk.database.url
    said = refuses(evenbeat("dlq", "discard", EVENBEAT_DATABASE_URL=url))
    assert "choose them by --job" in said
    said = refuses(
        evenbeat("dlq", "requeue", "--job", "bad", "--payload", "1", EVENBEAT_DATABASE_URL=url)
    )
    assert "goes with one letter" in said
    assert await desk.value("select count(*) from evenbeat.audit") == 0


async def test_statistics_are_shown_at_once_and_by_day(desk: Desk, call: Call) -> None:
    stats = call("stats")
    assert stats["activity"] == {"active": 3, "paused": 0, "disabled": 0}
    assert (stats["runs"]["failed"], stats["runs"]["success_rate"]) == (1, "0.0%")
    assert stats["dead_letters"] == {"total": 1, "unacknowledged": 1}
    days = call("stats", "--days", "2")
    assert [(day["day"], day["failed"]) for day in days] == [("2029-12-31", 0), ("2030-01-01", 1)]
    assert "dead letters not acknowledged" in call("stats", "--group", "site", reads=False)
