"""`evenbeat runs`, and commands that wait for a run: what it says, and how it ends."""

from collections.abc import Callable

import pytest

from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.jobs.model import Claimed
from evenbeat.store.database.pool import Database
from tests.cli.conftest import Call
from tests.control.controlled_jobs import ControlledJobs, due, open_controlled_jobs
from tests.store.given import FAILED
from tests.support.processes import Process

JSON = ("-o", "json")


@pytest.fixture
async def controlled(database: Database) -> ControlledJobs:
    return await open_controlled_jobs(database)


async def says(controlled: ControlledJobs, claimed: Claimed, *messages: str) -> None:
    for message in messages:
        await controlled.fetch(
            "insert into evenbeat.run_log (run_id, at, level, message)"
            " values ($1, '2030-01-01 12:00Z', 'info', $2)",
            claimed.run.id,
            message,
        )


async def test_runs_of_all_jobs_are_listed_the_newest_first(
    controlled: ControlledJobs, call: Call
) -> None:
    bad = await controlled.add(due("now", name="bad", policy={"max_attempts": 1}))
    await controlled.fail(bad)
    await controlled.finish(await controlled.add(due("now", name="good")))
    running = await controlled.start(await controlled.add(due("now", name="busy")))
    found = (await call("runs", "list", *JSON)).json["executions"]
    assert [run["job_name"] for run in found] == ["busy", "good", "bad"]
    assert found[0]["id"] == str(run_uid(running.run.id))
    assert [row[1:4] for row in (await call("runs", "list")).table] == [
        ["busy", "1", "running"],
        ["good", "1", "completed"],
        ["bad", "1", "failed"],
    ]
    [failed] = (await call("runs", "list", "--state", "failed", *JSON)).json["executions"]
    assert failed["error_message"] == "out of order"
    [of_one] = (await call("runs", "list", "--job", "good", *JSON)).json["executions"]
    assert of_one["job_name"] == "good"
    page = await call("runs", "list", "--limit", "1")
    assert f"--before {found[0]['id']}" in page.err
    first = (await call("runs", "list", "--limit", "1", *JSON)).json
    older = (await call("runs", "list", "--before", first["next_cursor"], *JSON)).json
    assert [run["job_name"] for run in older["executions"]] == ["good", "bad"]
    assert older["next_cursor"] is None


async def test_a_run_is_shown_with_its_result_or_its_stack_trace(
    controlled: ControlledJobs, call: Call
) -> None:
    job = await controlled.add(due("now", name="bad", policy={"max_attempts": 1}))
    claimed = await controlled.start(job)
    await controlled.end(claimed, outcome=FAILED)
    uid = run_uid(claimed.run.id)
    shown = (await call("runs", "show", uid, *JSON)).json
    assert (shown["status"], shown["stack_trace"]) == ("failed", "Traceback: Boom")
    said = await call("runs", "show", uid)
    assert "Traceback: Boom" in said.out
    assert "result" not in said.out, "what it does not have is left out"
    missing = await call("runs", "show", run_uid(10**9))
    assert (missing.code, missing.err.startswith("evenbeat: no run")) == (1, True)
    assert (await call("runs", "show", job.uid)).code == 1
    assert (await call("runs", "show", "seven")).code == 2


async def test_what_a_run_said_is_shown_in_its_order(
    controlled: ControlledJobs, call: Call
) -> None:
    claimed = await controlled.start(await controlled.add(due("now")))
    await says(controlled, claimed, *(f"line {number}" for number in range(1200)))
    uid = run_uid(claimed.run.id)
    lines = (await call("runs", "logs", uid, *JSON)).json
    assert [line["message"] for line in lines] == [f"line {number}" for number in range(1200)]
    said = await call("runs", "logs", uid)
    assert said.out.splitlines()[0] == "2030-01-01 12:00:00Z info    line 0"


@pytest.mark.parametrize(("outcome", "code"), [("completed", 0), ("failed", 1)])
async def test_lines_are_followed_as_they_come_until_the_run_ends(
    controlled: ControlledJobs, start: Callable[..., Process], outcome: str, code: int
) -> None:
    claimed = await controlled.start(await controlled.add(due("now", policy={"max_attempts": 1})))
    await says(controlled, claimed, "before")
    process = start("runs", "logs", str(run_uid(claimed.run.id)), "--follow")
    await process.says("before")
    await says(controlled, claimed, "and after")
    await process.says("and after")
    assert process.exit_code is None
    await controlled.end(claimed, **({"outcome": FAILED} if outcome == "failed" else {}))
    assert await process.ended() == code
    assert f"Run 1 {outcome}" in process.output
    assert process.output.count("before") == 1


async def test_a_job_that_is_run_and_followed_ends_as_its_run_ends(
    controlled: ControlledJobs, call: Call, start: Callable[..., Process]
) -> None:
    await controlled.jobs.add(due("every 1d", name="good"))
    await controlled.jobs.add(due("every 1d", name="paused"))
    await call("jobs", "pause", "paused")
    # Nothing listens there, and a worker may not go there either.
    said = await call(
        *("jobs", "add", "bad", "--kind", "http", "--every", "1d", "--max-attempts", "1"),
        *("--payload", '{"url": "http://127.0.0.1:9/"}'),
    )
    assert said.code == 0, said
    await start("worker").ready()
    good = await call("jobs", "run", "good", "--follow")
    assert (good.code, good.out.startswith("Run 1 completed")) == (0, True)
    shown = (await call("jobs", "run", "paused", "--follow", *JSON)).json
    assert (shown["status"], shown["cause"]) == ("completed", "manual")
    bad = await call("jobs", "run", "bad", "--follow")
    assert (bad.code, bad.out.startswith("Run 1 failed")) == (1, True)
    again = await call("runs", "show", shown["id"], "--follow")
    assert again.code == 0, "one that has ended is not waited for"


async def test_whoever_waits_is_told_why_nothing_happens(
    database: Database, controlled: ControlledJobs, start: Callable[..., Process]
) -> None:
    await controlled.jobs.add(due("every 1d", name="report"))
    await controlled.maintenance.on("new disks")
    process = start("jobs", "run", "report", "--follow")
    await process.says("Maintenance is on (new disks)")
    await controlled.maintenance.off()
    job = (await controlled.fetch("select uid from evenbeat.job"))[0]["uid"]
    await controlled.finish(await controlled.jobs.get(job))
    assert await process.ended() == 0


async def test_a_run_that_is_called_off_is_not_waited_for(
    controlled: ControlledJobs, start: Callable[..., Process]
) -> None:
    job = await controlled.jobs.add(due("every 1d", name="report"))
    process = start("jobs", "run", "report", "--follow")
    await process.says("starts any moment now")
    await controlled.jobs.pause(job.uid)
    assert await process.ended() == 1
    assert "evenbeat: the run was called off. Paused" in process.output


async def test_a_run_that_is_handed_back_is_followed_to_where_it_begins_again(
    controlled: ControlledJobs, start: Callable[..., Process]
) -> None:
    job = await controlled.jobs.add(due("every 1d", name="report"))
    process = start("jobs", "run", "report", "--follow")
    await process.says("starts any moment now")
    first = await controlled.start(job)
    await says(controlled, first, "the first node speaks")
    await process.says("the first node speaks")
    await controlled.jobs.release(job.uid)
    second = await controlled.start(job)
    await says(controlled, second, "and now the second")
    await process.says("and now the second")
    await controlled.end(second)
    assert await process.ended() == 0


async def test_only_one_job_is_followed(controlled: ControlledJobs, call: Call) -> None:
    for name in ("a", "b"):
        await controlled.jobs.add(due("every 1d", name=name))
    assert (await call("jobs", "run", "a", "b", "--follow")).code == 2
    assert (await call("jobs", "run", "--all", "--follow")).code == 2
    assert await controlled.audit() == []
