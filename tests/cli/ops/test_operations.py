"""The commands for those who run the whole: status, nodes, audit, maintenance, templates."""

import asyncio
import json
import os
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from evenbeat.cli.shell.completion import complete_jobs
from evenbeat.store.database.pool import Database
from tests.cli.conftest import Call
from tests.control.controlled_jobs import ControlledJobs, due, open_controlled_jobs
from tests.store.given import join

JSON = ("-o", "json")
TEMPLATE = {
    "description": "says hello",
    "job": {"kind": "echo", "payload": {"to": "${who}"}, "schedule": "every ${pace}"},
    "parameters": {"who": None, "pace": "1h"},
}


@pytest.fixture
async def controlled(database: Database) -> ControlledJobs:
    return await open_controlled_jobs(database)


async def test_status_shows_everything_on_one_screen(
    controlled: ControlledJobs, call: Call
) -> None:
    await controlled.fail(await controlled.add(due("now", policy={"max_attempts": 1})))
    await controlled.add(due("now"))
    await controlled.maintenance.on("new disks")
    shown = (await call("status", *JSON)).json
    assert (shown["jobs"]["failed"], shown["jobs"]["pending"]) == (1, 1)
    assert (shown["dead_letters"]["unacknowledged"], shown["live_nodes"]) == (1, 1)
    assert (shown["nodes"][0]["name"], shown["lag_seconds"]) == ("a:1", 0)
    assert shown["maintenance"]["reason"] == "new disks"
    said = (await call("status")).out
    assert "1 failed, 1 pending" in said
    assert "1 alive, 0 runs in hand" in said
    assert "1, 1 not acknowledged" in said
    assert "new disks" in said


async def test_status_says_that_nothing_runs_without_a_node(database: Database, call: Call) -> None:
    assert "No node is alive" in (await call("status")).out


async def test_nodes_are_listed_drained_and_given_work_again(
    controlled: ControlledJobs, call: Call
) -> None:
    [node] = (await call("nodes", "list", *JSON)).json["nodes"]
    assert (node["id"], node["name"], node["status"]) == (controlled.node_id, "a:1", "alive")
    drained = (await call("nodes", "drain", "a:1", *JSON)).json
    assert drained["status"] == "draining"
    [row] = (await call("nodes", "undrain", controlled.node_id)).table
    assert row[:3] == [str(controlled.node_id), "a:1", "alive"]
    assert [entry.action for entry in await controlled.audit()] == ["undrain", "drain"]
    assert (await call("nodes", "drain", "z:9")).err == (
        "evenbeat: no living node z:9; those that live: a:1"
    )


async def test_a_name_that_several_nodes_have_is_not_enough(
    controlled: ControlledJobs, call: Call
) -> None:
    other = await join(controlled.database, "a:1")
    said = await call("nodes", "drain", "a:1")
    assert (said.code, str(other) in said.err) == (1, True)
    assert (await call("nodes", "drain", other)).code == 0


async def test_the_audit_is_listed_by_job_and_by_actor(
    controlled: ControlledJobs, call: Call
) -> None:
    job = await controlled.add(due(name="report"))
    await call("jobs", "pause", "report")
    await controlled.edit(job, priority=3)
    await call("maintenance", "on", "new disks")
    entries = (await call("audit", "list", *JSON)).json["entries"]
    assert [entry["action"] for entry in entries] == ["maintenance on", "edit", "pause"]
    of_job = (await call("audit", "list", "--job", "report", *JSON)).json["entries"]
    assert of_job[0]["actor"] == "ann"
    by_ann = (await call("audit", "list", "--actor", "ann", *JSON)).json["entries"]
    assert [entry["after"]["priority"] for entry in by_ann] == [3]
    said = await call("audit", "list", "--limit", "2")
    assert "priority: 0 → 3" in said.out
    older = entries[1]["id"]
    assert f"--before {older}" in said.err
    [last] = (await call("audit", "list", "--before", older, *JSON)).json["entries"]
    assert last["action"] == "pause"
    await controlled.jobs.delete(job.uid)
    assert len((await call("audit", "list", "--job", job.uid, *JSON)).json["entries"]) == 3


async def test_maintenance_is_switched_on_and_off(controlled: ControlledJobs, call: Call) -> None:
    assert (await call("maintenance", "status")).out == "Maintenance is off.\n"
    shown = (await call("maintenance", "on", "new disks", *JSON)).json
    assert (shown["is_on"], shown["reason"]) == (True, "new disks")
    assert shown["actor"].startswith("cli:")
    assert "new disks" in (await call("maintenance", "status")).out
    assert (await call("maintenance", "off", *JSON)).json["is_on"] is False
    assert (await call("maintenance", "on", "")).err.startswith("evenbeat: reason:")
    assert await controlled.maintenance.status() is None


async def test_jobs_are_made_of_templates(
    controlled: ControlledJobs, call: Call, tmp_path: Path
) -> None:
    (tmp_path / "hello.json").write_text(json.dumps(TEMPLATE))
    made = (await call("templates", "put", "hello", "-f", "hello.json", *JSON)).json
    assert (made["name"], made["version"]) == ("hello", 1)
    add = ("templates", "add-job", "hello")
    job = (await call(*add, "-p", "who=ann", "--job-name", "hello ann", *JSON)).json
    assert (job["name"], job["payload"]) == ("hello ann", {"to": "ann"})
    job = (await call(*add, "-p", "who=[1]", "-p", "pace=2h", *JSON)).json
    assert (job["payload"], job["schedule"]["every"]) == ({"to": [1]}, "2h")
    assert (await call(*add, "-p", "who=bob")).out.startswith("Added ")
    said = await call(*add)
    assert (said.code, said.err) == (1, "evenbeat: parameters.who: must be given")
    assert (await call(*add, "-p", "who")).code == 2


async def test_templates_are_listed_shown_and_deleted(
    controlled: ControlledJobs, call: Call, tmp_path: Path
) -> None:
    (tmp_path / "hello.json").write_text(json.dumps(TEMPLATE))
    put = ("templates", "put", "hello", "-f")
    assert (await call(*put, "hello.json")).code == 0
    [listed] = (await call("templates", "list", *JSON)).json["templates"]
    assert listed["parameters"] == TEMPLATE["parameters"]
    assert 'who, pace="1h"' in (await call("templates", "list")).out
    assert (await call("templates", "show", "hello", *JSON)).json == listed
    assert "says hello" in (await call("templates", "show", "hello")).out
    assert (await call("templates", "show", "helo")).err.endswith("; did you mean 'hello'?")
    assert "--file: is not JSON" in (await call(*put, "-", typed="{")).err
    assert (await call(*put, "-", typed="{}")).err.startswith("evenbeat: job: ")
    assert (await call(*put, "-", typed="[]")).err.startswith("evenbeat: --file: ")
    assert (await call("templates", "delete", "hello", typed="n\n")).code == 1
    assert len((await call("templates", "list", *JSON)).json["templates"]) == 1
    assert (await call("templates", "delete", "hello", "--yes", *JSON)).json == listed
    assert (await call("templates", "show", "hello")).err == "evenbeat: no template 'hello'"
    by_hand = [(entry.action, entry.actor.name[:4]) for entry in await controlled.audit()]
    assert by_hand == [("delete_template", "cli:"), ("put_template", "cli:")]


async def test_limits_that_the_group_does_not_have_are_warned_of(
    controlled: ControlledJobs, call: Call, tmp_path: Path
) -> None:
    await call("groups", "set", "site", "--max-running", "2")
    job = {"kind": "echo", "schedule": "every 1h", "group": "site", "limits": {"max_running": 5}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    (tmp_path / "jobs.json").write_text(json.dumps([job, job]))
    changes = json.dumps({"limits": {"max_running": 5}})
    for words in (
        ("add", "report", "-f", "job.json", "--dry-run"),
        ("add", "report", "-f", "job.json", "--put"),
        ("add", "report", "-f", "job.json", "--put"),
        ("edit", "report", "-f", "-"),
        ("add", "-f", "jobs.json"),
    ):
        said = await call("jobs", *words, typed=changes)
        assert said.code == 0, said
        warning, *more = said.err.splitlines()
        assert warning.startswith("Warning: limits.max_running 5 is not used"), words
        assert more == []


async def test_a_user_of_the_database_without_rights_is_told_in_one_line(
    database: Database,
    call: Call,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weak = f"weak_{os.urandom(4).hex()}"
    url = urlsplit(environ["EVENBEAT_DATABASE_URL"])
    own = f"{weak}:w@{url.netloc.rpartition('@')[2]}"
    async with database.connection() as connection:
        await connection.execute(f"create role {weak} login password 'w'")
        try:
            environ["EVENBEAT_DATABASE_URL"] = urlunsplit(url._replace(netloc=own))
            monkeypatch.setenv("EVENBEAT_DATABASE_URL", environ["EVENBEAT_DATABASE_URL"])
            said = [await call("jobs", "list"), await call("token")]
            offered = await asyncio.to_thread(complete_jobs, "")
        finally:
            await connection.execute(f"drop role {weak}")
    for each in said:
        assert each.code == 1
        assert each.err.startswith("evenbeat: the database's user may not do this: permission ")
    assert offered == [], "who is typing is told nothing"
