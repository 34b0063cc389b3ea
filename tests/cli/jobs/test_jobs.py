"""`evenbeat jobs`: what is added, shown and changed is what is in the database, and audited."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenbeat.control.ops.verify import verify
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Job, State
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs
from tests.cli.conftest import Call
from tests.control.controlled_jobs import ControlledJobs, due, open_controlled_jobs
from tests.support.processes import Process

JSON = ("-o", "json")


@pytest.fixture
async def controlled(database: Database) -> ControlledJobs:
    return await open_controlled_jobs(database)


async def stored(controlled: ControlledJobs, name: str) -> Job:
    job = await jobs.find_job_by_name(controlled.database, name)
    assert job is not None, name
    return job


class TestAdd:
    async def test_a_program_that_nobody_would_run_is_told(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        job = {"kind": "program", "payload": {"command": "true"}}
        template = json.dumps({"job": job})
        assert (await call("templates", "put", "tidy", "-f", "-", typed=template)).code == 0
        options = ("--kind", "program", "--payload", '{"command": "true"}')
        for words, typed in (
            (("jobs", "add", *options), ""),
            (("jobs", "add", "-f", "-"), json.dumps([job, job])),
            (("templates", "add-job", "tidy"), ""),
        ):
            said = await call(*words, typed=typed)
            assert said.err == (
                "Warning: No live node serves the kind program: "
                "start one with EVENBEAT_PROGRAMS=on.\n"
            ), words

    async def test_every_option_is_a_field_of_the_job(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        said = await call(
            *("jobs", "add", "report", "--kind", "echo", "--cron", "0 8 * * MON-FRI"),
            *("--tz", "Europe/Berlin", "--payload", '{"to": "ann"}', "--label", "team=search"),
            *("--label", "urgent", "--group", "mail", "--max-attempts", "7", "--timeout", "5m"),
            *("--priority", "9", "--catch-up", "none", "--runs-on", "gpu", *JSON),
        )
        shown = said.json
        job = await stored(controlled, "report")
        assert shown["id"] == str(job.uid)
        assert shown["schedule"] == {"cron": "0 8 * * MON-FRI", "zone": "Europe/Berlin"}
        written = job.definition
        assert (written.kind, written.payload) == ("echo", {"to": "ann"})
        assert written.labels == {"team": "search", "urgent": ""}
        assert written.group is not None
        assert written.group.key == "mail"
        assert (written.policy.max_attempts, written.priority) == (7, 9)
        assert written.policy.timeout.total_seconds() == 300
        assert (written.policy.catch_up, written.runs_on) == ("none", ("gpu",))
        [entry] = await controlled.audit(job=job.uid)
        assert entry.action == "add"
        assert entry.actor.name.startswith("cli:")

    @pytest.mark.parametrize(
        ("options", "schedule"),
        [
            (("--every", "30m"), "every"),
            (("--daily", "06:00", "--tz", "Asia/Tokyo"), "daily"),
            (("--weekly", "sun 02:00"), "weekly"),
            (("--at", "2031-01-01T00:00:00Z"), "once"),
            (("--schedule", "hourly :15"), "hourly"),
        ],
        ids=lambda each: each[0] if isinstance(each, tuple) else "",
    )
    async def test_a_schedule_has_an_option_of_its_own(
        self, controlled: ControlledJobs, call: Call, options: tuple[str, ...], schedule: str
    ) -> None:
        said = await call("jobs", "add", "--kind", "echo", *options, *JSON)
        assert schedule in said.json["schedule"]

    async def test_people_are_told_what_it_means_and_when_it_runs(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        said = await call("jobs", "add", "beat", "--kind", "echo", "--every", "30m")
        first, second = said.out.splitlines()
        assert first.startswith("Added beat (")
        assert first.endswith("): every 30 minutes.")
        assert second == "Next run: 2030-01-01 12:30:00Z (in 30m)"

    async def test_a_file_has_the_fields_of_the_api_and_options_win(
        self, controlled: ControlledJobs, call: Call, tmp_path: Path
    ) -> None:
        job = {"name": "filed", "kind": "echo", "schedule": "every 1h", "max_retries": 1}
        (tmp_path / "job.json").write_text(json.dumps(job))
        (tmp_path / "payload.json").write_text("[1, 2]")
        said = await call(
            *("jobs", "add", "-f", "job.json", "--priority", "3"),
            *("--payload", "@payload.json", *JSON),
        )
        assert said.code == 0, said
        written = (await stored(controlled, "filed")).definition
        assert (written.policy.max_attempts, written.priority) == (2, 3)
        assert written.payload == [1, 2]

    async def test_many_jobs_of_a_file_come_in_at_once_or_not_at_all(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        many = [{"kind": "echo", "name": f"job {n}"} for n in range(3)]
        said = await call("jobs", "add", "-f", "-", *JSON, typed=json.dumps(many))
        assert said.json["created"] == 3
        worse = [{"kind": "echo", "name": "new"}, {"kind": "echo", "priority": 101}]
        said = await call("jobs", "add", "-f", "-", typed=json.dumps(worse))
        assert said.code == 1
        assert "jobs.1.priority" in said.err
        assert await controlled.value("select count(*) from evenbeat.job") == 3

    async def test_a_dry_run_checks_everything_and_leaves_nothing(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.add(due(name="taken"))
        said = await call("jobs", "add", "new", "--kind", "echo", "--every", "1h", "--dry-run")
        assert said.code == 0
        assert said.out.startswith("Would add new: every hour.")
        said = await call("jobs", "add", "taken", "--kind", "echo", "--dry-run")
        assert (said.code, "taken" in said.err) == (1, True)
        assert await controlled.value("select count(*) from evenbeat.job") == 1
        assert await controlled.value("select count(*) from evenbeat.audit") == 0

    async def test_put_changes_the_job_of_that_name_and_may_be_repeated(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        put = ("jobs", "add", "same", "--put", "--kind", "echo", "--every", "1h", *JSON)
        first, again = await call(*put), await call(*put)
        assert first.json["id"] == again.json["id"]
        changed = await call(*put, "--priority", "4")
        assert (changed.json["id"], changed.json["priority"]) == (first.json["id"], 4)

    async def test_what_the_api_would_warn_of_is_told(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        crawl = {"kind": "crawl", "url": "https://example.com"}
        body = crawl | {"interval_minutes": 360, "interval_type": "hours"}
        said = await call("jobs", "add", "-f", "-", typed=json.dumps(body))
        assert "Warning: interval_minutes counts hours here" in said.err, said

    @pytest.mark.parametrize(
        ("options", "code", "what"),
        [
            (("--every", "1h", "--cron", "* * * * *"), 2, "--every and --cron"),
            (("--every", "1h", "--tz", "UTC"), 2, "--tz"),
            (("--every", "never"), 1, "schedule"),
            (("--priority", "101"), 1, "priority"),
            (("--payload", "{"), 1, "--payload: is not JSON"),
            (("--payload", '{"n": 123456789012345678901}'), 1, "more than 64 bits"),
            (("--payload", "NaN"), 1, "--payload: is not JSON"),
            (("--payload", "@missing"), 1, "missing cannot be read"),
            (("-f", "missing"), 1, "missing cannot be read"),
            (("--label", "=x"), 2, "name=value"),
            (("--kind", "nonesuch"), 1, "kind"),
        ],
        ids=lambda each: each[0] + each[1] if isinstance(each, tuple) else "",
    )
    async def test_what_is_wrong_is_named(
        self, controlled: ControlledJobs, call: Call, options: tuple[str, ...], code: int, what: str
    ) -> None:
        said = await call("jobs", "add", "x", "--kind", "echo", *options)
        assert said.code == code, said
        assert what in " ".join(said.err.split())
        assert await controlled.value("select count(*) from evenbeat.job") == 0


class TestList:
    async def test_jobs_are_filtered_sorted_and_paged(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        for name, team in (("a", "x"), ("b", "y"), ("c", "x")):
            await controlled.add(due(name=name, labels={"team": team}))
        await controlled.jobs.pause((await stored(controlled, "c")).uid)

        async def names(*options: str) -> list[str]:
            said = await call("jobs", "list", *options, *JSON)
            return [job["name"] for job in said.json["jobs"]]

        assert await names() == ["c", "b", "a"]
        assert await names("--sort", "name") == ["a", "b", "c"]
        assert await names("--sort", "name", "--reverse", "--limit", "1") == ["c"]
        assert await names("--label", "team=x") == ["c", "a"]
        assert await names("--label", "team=x", "--state", "paused") == ["c"]
        assert await names("--kind", "crawl") == []
        assert await names("--search", "B") == ["b"]
        assert await names("--limit", "1", "--offset", "1") == ["b"]

    async def test_a_table_has_exact_and_relative_times_and_says_how_to_go_on(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        for name in ("a", "b"):
            await controlled.jobs.add(due("every 90m", name=name))
        said = await call("jobs", "list", "--sort", "name", "--limit", "1")
        assert said.out.splitlines()[1].startswith("a ")
        assert "2030-01-01 13:30:00Z (in 1h30m)" in said.out
        assert said.err == "1 more: go on with --offset 1, or take a larger --limit\n"

    async def test_watching_shows_changes_as_they_come(
        self, controlled: ControlledJobs, start: Callable[..., Process]
    ) -> None:
        await controlled.add(due(name="seen first"))
        process = start("jobs", "list", "--watch")
        assert "seen later" not in await process.says("seen first")
        await controlled.add(due(name="seen later"))
        assert "seen later" in await process.says("seen later")

    async def test_programs_cannot_watch(self, controlled: ControlledJobs, call: Call) -> None:
        assert (await call("jobs", "list", "--watch", *JSON)).code == 2


class TestShow:
    async def test_a_job_is_shown_by_name_and_by_id(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        job = await controlled.add(due(name="report", payload={"n": 1}))
        await controlled.finish(job)
        for called in ("report", job.uid):
            shown = (await call("jobs", "show", called, *JSON)).json
            assert (shown["id"], shown["completed_count"]) == (str(job.uid), 1)
            assert len(shown["next"]) == 5
            assert shown["explanation"].startswith("The next run comes in")
        said = await call("jobs", "show", "report")
        fields = {line.split("  ")[0]: line for line in said.out.splitlines()}
        assert '{"n":1}' in fields["payload"]
        assert "last error" not in fields, "what it does not have is left out"
        assert said.out.splitlines()[-1].split()[:3] == ["1", "completed", "schedule"]

    async def test_the_next_beats_are_in_the_zone_of_the_job(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.jobs.add(due("daily 06:00 Asia/Tokyo", name="report"))
        said = await call("jobs", "next", "report", "-n", "2", *JSON)
        assert said.json["beats"] == ["2030-01-01T21:00:00+00:00", "2030-01-02T21:00:00+00:00"]
        said = await call("jobs", "next", "report", "-n", "1")
        assert "Wed 2030-01-02 06:00:00 JST" in said.out
        await controlled.jobs.pause((await stored(controlled, "report")).uid)
        assert "it is paused" in (await call("jobs", "next", "report")).out

    async def test_why_it_does_not_run_is_explained(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        job = await controlled.add(due(name="report"))
        await controlled.jobs.pause(job.uid)
        assert (await call("explain", "report")).out.startswith("Paused")
        shown = (await call("explain", job.uid, *JSON)).json
        assert (shown["state"], shown["explanation"][:6]) == ("paused", "Paused")

    async def test_the_attempts_of_a_run_by_hand_are_counted_for_themselves(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        job = await controlled.jobs.add(due("every 1d", name="report"))
        await controlled.jobs.run(job.uid)
        await controlled.start(job)
        assert "attempt 1 of 3" in (await call("explain", "report")).out

    async def test_a_name_that_is_mistyped_is_told_with_the_one_that_was_meant(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        for name in ("report", "other"):
            await controlled.add(due(name=name))
        said = await call("jobs", "show", "reprot")
        assert (said.code, said.out) == (1, "")
        assert said.err == "evenbeat: no job is named 'reprot'; did you mean 'report'?"
        assert (await call("explain", "x")).err == "evenbeat: no job is named 'x'"

    @pytest.mark.parametrize("command", ["show", "next", "versions", "edit", "restore", "run"])
    async def test_a_job_that_is_not_there_is_one_clear_line(
        self, controlled: ControlledJobs, call: Call, command: str
    ) -> None:
        more = {"edit": ["--priority", "1"], "restore": ["1"]}.get(command, [])
        said = await call("jobs", command, "nobody", *more)
        assert (said.code, said.err) == (1, "evenbeat: no job is named 'nobody'")


class TestEdit:
    async def test_what_is_given_is_changed_and_the_rest_is_left(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        job = await controlled.jobs.add(due("every 1h", name="report", payload={"n": 1}))
        said = await call(
            *("jobs", "edit", "report", "--name", "weekly report", "--weekly", "mon 06:00"),
            *("--label", "team=x", *JSON),
        )
        assert said.json["version"] == 2
        now = await controlled.find(job)
        assert (now.definition.name, now.definition.payload) == ("weekly report", {"n": 1})
        assert now.definition.labels == {"team": "x"}
        assert [entry.action for entry in await controlled.audit(job=job.uid)] == ["edit"]

    async def test_people_see_what_was_and_what_is(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.jobs.add(due(name="report"))
        dry = await call("jobs", "edit", "report", "--priority", "5", "--dry-run")
        assert ["priority", "0", "5"] in dry.table
        assert (await stored(controlled, "report")).version == 1
        real = await call("jobs", "edit", "report", "--priority", "5")
        assert real.out.startswith("Changed report, version 2.")
        again = await call("jobs", "edit", "report", "--priority", "5")
        assert again.out == "report is so already.\n"
        assert (await stored(controlled, "report")).version == 2

    async def test_a_dry_run_refuses_and_warns_as_the_edit_would(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.jobs.add(due(name="taken", group=Group("site", max_running=1)))
        await controlled.jobs.add(due(name="report"))
        for options, why in {
            ("--version", "7", "--priority", "1"): "version",
            ("--name", "taken"): "taken",
            ("--kind", "nonesuch"): "nonesuch",
            ("--kind", "http"): "url",
        }.items():
            dry = await call("jobs", "edit", "report", *options, "--dry-run")
            real = await call("jobs", "edit", "report", *options)
            assert (dry.code, dry.out, dry.err) == (1, real.out, real.err)
            assert why in dry.err
        limits = {"group": "site", "limits": {"max_running": 5}, "runs_on": ["gpu"]}
        changes = ("-f", "-", "--dry-run")
        said = await call("jobs", "edit", "report", *changes, typed=json.dumps(limits))
        assert said.err.startswith("Warning: limits.max_running 5 is not used")
        assert said.out.startswith("Would change report, version 2.")
        assert (await stored(controlled, "report")).version == 1
        assert await controlled.value("select count(*) from evenbeat.audit") == 0
        assert (
            await controlled.value("select count(*) from evenbeat.lane where runs_on <> '{}'") == 0
        )

    async def test_a_version_that_is_not_there_any_more_is_refused(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.jobs.add(due(name="report"))
        said = await call("jobs", "edit", "report", "--priority", "5", "--version", "7")
        assert (said.code, "version 1 and not 7" in said.err) == (1, True)

    async def test_bad_fields_and_empty_edits_are_named(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.jobs.add(due(name="report"))
        assert (await call("jobs", "edit", "report")).code == 2
        said = await call("jobs", "edit", "report", "--max-attempts", "0")
        assert (said.code, said.err.startswith("evenbeat: max_attempts: ")) == (1, True)
        said = await call("jobs", "edit", "report", "-f", "-", typed='{"colour": 1}')
        assert "colour: is no field of a job" in said.err
        said = await call("jobs", "edit", "report", "-f", "-", typed='{"schedule_enabled": false}')
        assert "use `evenbeat jobs enable` or `disable`" in said.err

    async def test_versions_are_listed_and_restored(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        job = await controlled.jobs.add(due(name="report", payload={"n": 1}))
        await controlled.edit(job, payload={"n": 2})
        found = (await call("jobs", "versions", "report", *JSON)).json["versions"]
        assert [each["version"] for each in found] == [2, 1]
        assert found[1]["definition"]["payload"] == {"n": 1}
        assert '{"n":1}' in (await call("jobs", "versions", "report")).out
        said = await call("jobs", "restore", "report", "1", *JSON)
        assert (said.json["version"], said.json["payload"]) == (3, {"n": 1})
        assert (await call("jobs", "restore", "report", "9")).code == 1
        await controlled.jobs.delete(job.uid)
        assert len((await call("jobs", "versions", job.uid, *JSON)).json["versions"]) == 3


def refusals(said: Any) -> list[str]:
    return [each["name"] for each in json.loads(said.out)["refusals"]]


class TestActions:
    async def test_each_does_what_it_says_and_is_audited(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        job = await controlled.add(due(name="report"))
        steps = [
            ("pause", State.PAUSED),
            ("resume", State.SCHEDULED),
            ("disable", State.DISABLED),
            ("enable", State.SCHEDULED),
            ("cancel", State.CANCELLED),
            ("retry", State.SCHEDULED),
        ]
        for action, state in steps:
            said = await call("jobs", action, "report", "--yes", *JSON)
            assert said.json["ids"] == [str(job.uid)], action
            assert (await controlled.find(job)).pulse.state is state, action
        await controlled.start(job)
        assert (await call("jobs", "release", "report", "--yes", *JSON)).json["changed"] == 1
        assert (await controlled.find(job)).pulse.state is State.SCHEDULED
        assert (await call("jobs", "delete", job.uid, "--yes")).out == f"Deleted {job.uid}.\n"
        entries = await controlled.audit(job=job.uid)
        done = [entry.action for entry in reversed(entries)]
        assert done == [*(action for action, _ in steps), "release", "delete"]
        assert all(entry.actor.name.startswith("cli:") for entry in entries)
        assert await verify(controlled.database) == []

    @pytest.mark.parametrize("action", ["cancel", "release", "delete"])
    async def test_what_ends_something_asks_first(
        self, controlled: ControlledJobs, call: Call, action: str
    ) -> None:
        job = await controlled.add(due(name="report"))
        await controlled.start(job)
        said = await call("jobs", action, "report", typed="n\n")
        assert said.code == 1
        assert f"{action.capitalize()} report?" in said.err
        assert await controlled.audit() == []
        said = await call("jobs", action, "report", typed="y\n")
        assert said.code == 0
        assert [entry.action for entry in await controlled.audit()] == [action]

    async def test_what_ends_nothing_does_not_ask(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.add(due(name="report"))
        said = await call("jobs", "pause", "report")
        assert (said.out, said.err) == ("Paused report.\n", "")

    async def test_the_log_tells_of_it_where_that_is_asked_for(
        self, controlled: ControlledJobs, call: Call, environ: dict[str, str]
    ) -> None:
        await controlled.add(due(name="report"))
        environ["EVENBEAT_LOG_LEVEL"] = "info"
        said = await call("jobs", "pause", "report")
        assert said.out == "Paused report.\n"
        assert "Job changed" in said.err

    async def test_what_comes_to_match_after_the_question_is_left_alone(
        self, controlled: ControlledJobs, call: Call, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await controlled.add(due(name="asked about"))
        loop = asyncio.get_running_loop()

        def agree(*_: object, **__: object) -> bool:
            adding = asyncio.run_coroutine_threadsafe(controlled.add(due(name="later")), loop)
            return adding.result() is not None

        monkeypatch.setattr("typer.confirm", agree)
        assert (await call("jobs", "delete", "--all", *JSON)).json["changed"] == 1
        assert (await stored(controlled, "later")).pulse.state is State.SCHEDULED

    async def test_many_are_chosen_by_what_they_have_in_common(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        for name, team in (("a", "x"), ("b", "y"), ("c", "x")):
            await controlled.add(due(name=name, labels={"team": team}))
        dry = await call("jobs", "pause", "--label", "team=x", "--dry-run", *JSON)
        assert (dry.json["changed"], dry.json["dry_run"]) == (2, True)
        assert await controlled.audit() == []
        said = await call("jobs", "pause", "--all", "--label", "team=x", typed="y\n")
        assert "Pause 2 jobs?" in said.err
        assert said.out.splitlines()[-1] == "Paused 2 jobs."
        assert (await stored(controlled, "b")).pulse.state is State.SCHEDULED
        assert (await call("jobs", "resume", "--state", "paused", "-y", *JSON)).json["changed"] == 2
        assert (await call("jobs", "disable", "--all", "--yes", *JSON)).json["changed"] == 3

    async def test_one_that_refuses_keeps_all_from_being_changed(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.finish(await controlled.add(due("now", name="over")))
        await controlled.add(due(name="good"))
        for options in (("--yes",), (), ("--dry-run", *JSON)):
            said = await call("jobs", "pause", "--kind", "echo", *options)
            assert said.code == 1, said
            assert "over" in said.out + said.err
        assert (await stored(controlled, "good")).pulse.state is State.SCHEDULED
        said = await call("jobs", "pause", "--kind", "echo", "--skip-refused", "--yes", *JSON)
        assert (said.json["changed"], refusals(said)) == (1, ["over"])

    async def test_whoever_is_asked_hears_who_was_left_out_as_well(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.finish(await controlled.add(due("now", name="over")))
        await controlled.add(due(name="good"))
        said = await call("jobs", "pause", "--all", "--skip-refused", typed="y\n")
        assert "Pause 1 job?" in said.err
        assert said.out.splitlines()[-2] == "Paused 1 job."
        assert said.out.splitlines()[-1].startswith("Refused: over: ")
        again = await call("jobs", "pause", "--all", "--skip-refused")
        assert again.code == 0, "there was nothing to ask about"

    async def test_nothing_is_done_to_jobs_that_nobody_named(
        self, controlled: ControlledJobs, call: Call
    ) -> None:
        await controlled.add(due(name="report"))
        assert (await call("jobs", "delete", "--yes")).code == 2
        assert (await call("jobs", "delete", "report", "--all", "--yes")).code == 2
        assert (await call("jobs", "delete", "report", "nobody", "--yes")).code == 1
        said = await call("jobs", "delete", "--kind", "crawl", "--yes")
        assert (said.code, "no job matches" in said.out) == (0, True)
        assert await controlled.audit() == []
