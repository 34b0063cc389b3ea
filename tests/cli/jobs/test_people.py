"""`evenbeat groups`, `dlq` and `stats`, on a database with a dead letter in it."""

import asyncio

import pytest
import typer

from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.runs.outcome import Failed
from tests.cli.conftest import Call
from tests.control.controlled_jobs import ControlledJobs, due

JSON = ("-o", "json")


async def test_groups_are_shown_set_paused_and_resumed(
    controlled: ControlledJobs, call: Call
) -> None:
    [group] = (await call("groups", "list", *JSON)).json["groups"]
    assert (group["key"], group["max_running"]) == ("site", 1)
    assert (group["running"], group["waiting"]) == (1, 1)
    shown = (await call("groups", "show", "site", *JSON)).json
    assert [each["name"] for each in shown["holders"]] == ["good"]
    assert [each["name"] for each in shown["waiting"]] == ["late"]
    words = (await call("groups", "show", "site")).out.split()
    assert words.index("good") < words.index("runs") < words.index("late") < words.index("waits")
    limits = ("--max-running", "3", "--rate", "5/m")
    after = (await call("groups", "set", "site", *limits, *JSON)).json
    assert (after["max_running"], after["rate"], after["waiting"]) == (3, "5/1m", 0)
    assert (await call("groups", "pause", "site", *JSON)).json["is_paused"]
    assert (await call("groups", "resume", "site")).table[0][:3] == ["site", "3", "5/1m"]
    entries = await controlled.audit()
    assert [entry.action for entry in entries] == ["resume_group", "pause_group", "put_group"]
    assert entries[0].actor.name.startswith("cli")


async def test_dead_letters_are_listed_shown_and_seen_to(
    controlled: ControlledJobs, letter: str, call: Call
) -> None:
    [row] = (await call("dlq", "list", "--state", "open")).table
    assert (row[:3], row[-3:]) == ([letter, "open", "bad"], ["out", "of", "order"])
    assert (await call("dlq", "groups")).table[0][:4] == ["out", "of", "order", "1"]
    shown = (await call("dlq", "show", letter)).out
    assert 'payload    {"n":1}' in shown
    assert "attempt  started_at" in shown
    dry = (await call("dlq", "ack", "--job", "bad", "--dry-run")).out
    assert f"{letter}  would acknowledge" in dry
    done = (await call("dlq", "ack", "--job", "bad", "--owner", "ops", "--yes", *JSON)).json
    assert (done["action"], done["ids"], done["dry_run"]) == ("acknowledge", [letter], False)
    [owned] = (await call("dlq", "list", "--owned-by", "ops", *JSON)).json["dead_letters"]
    assert (owned["id"], owned["state"]) == (letter, "acknowledged")
    again = (await call("dlq", "requeue", letter, "--payload", '{"n": 2}', *JSON)).json
    made = await controlled.value("select uid from evenbeat.job where payload = '{\"n\": 2}'")
    assert (again["id"], again["requeued_as"]) == (letter, str(made))
    assert (await call("dlq", "list")).table[0][1] == "requeued"


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ("--job=bad --kind=echo", 1),
        ("--job=good", 0),
        ("--group=site", 0),
        ("--signature=disk", 0),
        ("--state=acknowledged", 0),
        ("--state=acknowledged --state=open", 1),
        ("--owned-by=ops", 0),
    ],
)
async def test_letters_are_chosen_by_all_that_the_api_knows_of_them(
    controlled: ControlledJobs, letter: str, call: Call, options: str, count: int
) -> None:
    said = await call("dlq", "discard", *options.split(), "--dry-run")
    would = f"{letter}  would discard" in said.out
    assert (said.code, would) == (0, count == 1)
    assert ("No dead letter matches." in said.out) is (count == 0)


async def test_letters_that_somebody_has_seen_are_meant_unless_a_state_is_given(
    controlled: ControlledJobs, letter: str, call: Call
) -> None:
    assert (await call("dlq", "ack", letter)).code == 0
    open_ones = await call("dlq", "requeue", "--job", "bad", "--state", "open", "--yes", *JSON)
    assert open_ones.json["changed"] == 0
    again = await call("dlq", "ack", "--job", "bad", "--yes", *JSON)
    assert again.json["changed"] == again.json["refused"] == 0, "none that could be acknowledged"
    seen = await call("dlq", "requeue", "--job", "bad", "--note", "disk", "-y", *JSON)
    assert seen.json["ids"] == [letter]
    assert "note             disk" in (await call("dlq", "show", letter)).out


async def test_nothing_is_done_to_letters_that_nobody_named(
    controlled: ControlledJobs, letter: str, call: Call
) -> None:
    for words, said in {
        ("discard",): "say which letters",
        ("requeue", "--job", "bad", "--payload", "1"): "goes with one letter",
        ("ack", letter, "--job", "x"): "not both",
    }.items():
        ended = await call("dlq", *words)
        assert (ended.code, said in ended.err) == (2, True), ended
    assert await controlled.value("select count(*) from evenbeat.audit") == 0


async def test_letters_are_asked_about_before_they_end_or_where_nobody_named_them(
    controlled: ControlledJobs, letter: str, call: Call
) -> None:
    for words in (("discard", letter), ("ack", "--job", "bad"), ("requeue", "--kind", "echo")):
        ended = await call("dlq", *words)
        assert (ended.code, ended.out.strip()) == (1, ""), words
        assert "1 dead letter?" in ended.err
    assert await controlled.value("select count(*) from evenbeat.audit") == 0
    agreed = await call("dlq", "discard", letter, typed="y\n")
    assert agreed.code == 0, agreed
    assert await controlled.value("select ending from evenbeat.dead_letter") is not None


async def test_a_letter_that_is_not_there_is_told_and_nothing_is_done_to_others(
    controlled: ControlledJobs, letter: str, call: Call
) -> None:
    missing = str(run_uid(4711))
    for option in ("--yes", "--dry-run"):
        ended = await call("dlq", "ack", letter, missing, option)
        assert f"no dead letter {missing}" in ended.err
        assert (ended.code, ended.out) == (1, "")
    said = await call("dlq", "requeue", letter, "--payload", "123456789012345678901")
    assert "more than 64 bits" in said.err
    assert await controlled.value("select count(*) from evenbeat.audit") == 0


async def test_a_dry_run_ends_as_the_command_would_where_a_letter_refuses(
    controlled: ControlledJobs, letter: str, call: Call
) -> None:
    assert (await call("dlq", "ack", letter)).code == 0
    for option in ("--yes", "--dry-run"):
        ended = await call("dlq", "ack", letter, option)
        assert (ended.code, "refused: cannot acknowledge" in ended.out) == (1, True)
        assert ended.err == "Nothing is done while one refuses: --skip-refused leaves them out.\n"
    skipping = (await call("dlq", "ack", letter, "--skip-refused", *JSON)).json
    assert (skipping["changed"], skipping["refused"]) == (0, 1)


async def test_a_letter_that_a_colleague_sees_to_while_the_question_stands_is_left_out(
    controlled: ControlledJobs, letter: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    await controlled.fail(
        await controlled.add(due("now", name="worse", policy={"max_attempts": 1}))
    )
    loop = asyncio.get_running_loop()

    def confirm(*_: object, **__: object) -> None:
        meanwhile = call("dlq", "ack", letter)
        assert asyncio.run_coroutine_threadsafe(meanwhile, loop).result(60).code == 0

    monkeypatch.setattr(typer, "confirm", confirm)
    done = (await call("dlq", "ack", "--kind", "echo", "--skip-refused", *JSON)).json
    assert (done["changed"], [each["id"] for each in done["refusals"]]) == (1, [letter])


async def test_statistics_are_shown_at_once_and_by_day(
    controlled: ControlledJobs, call: Call
) -> None:
    stats = (await call("stats", *JSON)).json
    assert stats["activity"] == {"active": 3, "paused": 0, "disabled": 0}
    assert (stats["runs"]["failed"], stats["runs"]["success_rate"]) == (1, 0.0)
    assert stats["dead_letters"] == {"total": 1, "unacknowledged": 1}
    table = {" ".join(row[:-1]): row[-1] for row in (await call("stats", "--group", "site")).table}
    assert (table["jobs active"], table["runs failed"], table["dead letters"]) == ("2", "0", "0")
    days = (await call("stats", "--days", "2")).table
    assert [row[:3] for row in days] == [["2029-12-31", "0", "0"], ["2030-01-01", "0", "1"]]


async def test_statistics_of_a_job_are_its_own(controlled: ControlledJobs, call: Call) -> None:
    of_bad = (await call("stats", "--job", "bad")).out
    assert "runs failed                    1" in of_bad
    assert (await call("stats", "--job", "good", *JSON)).json["failed_runs"] == 0
    assert (await call("stats", "--job", "bad", "--kind", "echo")).code == 2
    assert (await call("stats", "--job", "worse")).err.startswith("evenbeat: no job ")


async def test_a_list_says_how_many_it_leaves_out(controlled: ControlledJobs, call: Call) -> None:
    worse = await controlled.add(due("now", name="worse", policy={"max_attempts": 1}))
    await controlled.finish(worse, Failed("no disk"))
    await call("groups", "set", "sites")
    for name in ("ann", "bob"):
        await call("token", "--name", name)
    for words, total in {"jobs": 4, "groups": 2, "dlq": 2, "tokens": 2, "dlq groups": 2}.items():
        command = words.split() if " " in words else (words, "list")
        said = await call(*command, "--limit", "1")
        hint = f"{total - 1} more: go on with --offset 1, or take a larger --limit\n"
        assert (len(said.table), said.err) == (1, hint), words
        rest = await call(*command, "--offset", "1")
        assert (len(rest.table), rest.err) == (total - 1, ""), words
