"""`evenbeat import`: what another scheduler ran comes in as it was, and every line is told of."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenbeat.cli.jobs import imports as importing
from evenbeat.control.ops.verify import verify
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.model import CatchUp, Job, State
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs, listing
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.waiting import eventually

CRONTAB = """\
# The machine that does everything
SHELL=/bin/bash
MAILTO=ops@example.com
DB_PASSWORD=hunter2

*/15 * * * * /usr/local/bin/sync --all
@reboot /opt/start.sh
CRON_TZ=Europe/Berlin
0 9 13 * FRI mail -s "100\\%" a@example.com%Dear A,%bye
@daily /usr/local/bin/sync --all
0 25 * * * /bin/never
0 0 30 2 * /bin/never
H * * * * /bin/spread
not a line
"""

Import = Callable[..., tuple[int, Any]]


@pytest.fixture
def imports(evenbeat, environ: dict[str, str], database: Database, tmp_path: Path) -> Import:
    """Imports a text, and gives the exit code and what was told as JSON."""

    def call(what: str, text: str, *arguments: str) -> tuple[int, Any]:
        (tmp_path / "file").write_text(text)
        ended = evenbeat("import", what, "file", *arguments, "-o", "json", **environ)
        assert ended.returncode in (0, 1), ended
        return ended.returncode, json.loads(ended.stdout)

    return call


async def stored(database: Database) -> dict[str, Job]:
    uids = await listing.find_matching_uids(database, Filter(), limit=1000)
    found = [await jobs.find_job(database, uid) for uid in uids]
    return {job.definition.name or "": job for job in found}


async def test_a_real_crontab_comes_in_exactly_and_all_of_it_is_told(
    imports: Import, database: Database
) -> None:
    code, told = imports("crontab", CRONTAB, "--tz", "America/New_York", "--yes")
    assert code == 1, "some lines could not be taken in"
    assert (told["comments"], told["blank_lines"], told["written"]) == (1, 1, 3)
    assert (told["zone"], told["zone_from"], told["user_column"]) == (
        "America/New_York",
        "--tz",
        False,
    )
    assert told["counts"] == {
        "new": 3,
        "there already": 0,
        "differs": 0,
        "not imported": 5,
        "setting": 4,
        "could be an interval": 2,
        "to review": 4,
    }
    by_line = {each["line"]: each for each in told["findings"]}
    assert sorted(by_line) == [2, 3, 4, *range(6, 15)]
    assert by_line[6]["could_be"] == "every 15m"
    assert "no boot" in by_line[7]["why"]
    assert [by_line[line]["fate"] for line in (11, 12, 13, 14)] == ["not imported"] * 4
    assert "bad day of the month" in by_line[12]["why"]
    assert "not a field that cron knows" in by_line[13]["why"]
    assert "fewer than five fields" in by_line[14]["why"]
    assert "Debian's cron ignored it" in by_line[8]["review"][0]
    assert len(by_line[9]["review"]) == 2

    made = await stored(database)
    assert set(made) == {by_line[line]["name"] for line in (6, 9, 10)}
    first, mail, daily = (made[by_line[line]["name"]].definition for line in (6, 9, 10))
    assert first.timetable.schedule.to_text() == "*/15 * * * * America/New_York"
    assert mail.timetable.schedule.to_text() == "0 9 13 * FRI Europe/Berlin"
    assert daily.timetable.schedule.to_text() == "@daily Europe/Berlin"
    env = {"MAILTO": "ops@example.com", "DB_PASSWORD": "hunter2"}
    assert mail.payload == {
        "command": 'mail -s "100%" a@example.com',
        "shell": "/bin/bash",
        "stdin": "Dear A,\nbye\n",
        "env": env,
    }
    assert {each.kind for each in (first, mail, daily)} == {"program"}
    assert (mail.policy.max_attempts, mail.policy.catch_up) == (1, CatchUp.NONE)
    assert await verify(database) == []


async def test_nothing_is_written_before_it_is_wanted(
    evenbeat, imports: Import, environ: dict[str, str], database: Database, tmp_path: Path
) -> None:
    assert imports("crontab", "* * * * * one\n", "--yes", "--dry-run")[1]["written"] == 0
    refused = evenbeat("import", "crontab", "file", typed="n\n", **environ)
    assert (refused.returncode, "Add 1 new job?" in refused.stderr) == (1, True)
    async with database.connection() as connection:
        assert await connection.fetchval("select count(*) from evenbeat.lane") == 0
    agreed = evenbeat("import", "crontab", "file", typed="y\n", **environ)
    assert (agreed.returncode, agreed.stdout.endswith("Added 1 job.\n")) == (0, True)
    assert len(await stored(database)) == 1


async def test_a_system_crontab_from_standard_input_names_its_users(
    evenbeat, environ: dict[str, str], database: Database
) -> None:
    text = "17 * * * * root run-parts /etc/cron.hourly\r\n"
    command = ("import", "crontab", "-", "--yes", "-o", "json", "--kind", "echo", "--prefix", "a/")
    ended = evenbeat(*command, typed=text, **environ)
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["user_column"], told["carriage_returns_removed"]) == (
        0,
        True,
        True,
    )
    [job] = (await stored(database)).values()
    assert job.definition.kind == "echo"
    assert job.definition.name is not None
    assert job.definition.name.startswith("a/run-parts-")
    assert job.definition.payload["user"] == "root"
    assert job.definition.payload["command"] == "run-parts /etc/cron.hourly"


async def test_a_line_of_a_crontab_runs_on_a_node_that_may_run_programs(
    evenbeat, environ: dict[str, str], start: Callable[..., Process], clock: Clock, tmp_path: Path
) -> None:
    (tmp_path / "crontab").write_text(
        f"GREETING=Hello\n30 12 * * * cat; echo $GREETING >&2; exec touch {tmp_path}/ran%in%\n"
    )
    told = evenbeat("import", "crontab", "crontab", "--tz", "UTC", "--yes", **environ)
    assert told.returncode == 0, told
    assert (
        "No live node serves the kind program: start one with EVENBEAT_PROGRAMS=on. "
        "Until then these jobs wait."
    ) in told.stdout
    await start("worker").ready()
    await clock.advance(minutes=31)
    said = evenbeat("doctor", "--quick", **environ)
    assert "start a node with EVENBEAT_PROGRAMS=on, or pause these jobs" in said.stdout
    await start("worker", EVENBEAT_PROGRAMS="on").ready()
    await eventually((tmp_path / "ran").exists, "the line's effect")

    def ended() -> list[Any]:
        listed = evenbeat("runs", "list", "--state", "completed", "-o", "json", **environ)
        return json.loads(listed.stdout)["executions"]

    [run] = await eventually(ended, "the end of its run")
    lines = json.loads(evenbeat("runs", "logs", run["id"], "-o", "json", **environ).stdout)
    assert [(line["level"], line["message"]) for line in lines] == [
        ("info", "in"),
        ("warning", "Hello"),
    ]
    quiet = evenbeat("import", "crontab", "crontab", "--tz", "UTC", "-o", "json", **environ)
    assert json.loads(quiet.stdout)["warnings"] == []


HEADER = (
    "id,source_id,url,type,interval_minutes,interval_type,schedule_time,schedule_enabled,status,"
    "is_paused,max_retries,retry_backoff_seconds,next_run_at,metadata,lock_token\n"
)
ROWS = {
    "cron": ',,"0 6 * * *",t,scheduled,f,3,60,,"{""a"": 1}"',
    "both": '30,minutes,"0 6 * * *",t,scheduled,f,3,60,,{}',
    "trap": "360,hours,,t,scheduled,f,3,60,,",
    "paused": "6,hours,,t,paused,t,5,30,2030-01-01 13:07:00+00,",
    "off": "6,hours,,f,scheduled,f,3,60,,",
    "once": ",minutes,,f,pending,f,3,60,2030-02-01T00:00:00Z,",
    "over": ",minutes,,f,completed,f,3,60,,",
    "cancelled": "6,hours,,t,cancelled,f,3,60,,",
    "bad": ',,"61 * * * *",t,scheduled,f,3,60,,',
}
DUMP = HEADER + "".join(
    f"{name},s,https://example.com/{name},crawl,{row},secret\n" for name, row in ROWS.items()
)


async def test_rows_of_the_interval_scheduler_keep_their_meaning(
    imports: Import, database: Database
) -> None:
    code, told = imports("interval-scheduler", DUMP, "--yes")
    assert (code, told["written"], told["counts"]["not imported"]) == (1, 6, 3)
    assert told["columns_left_out"] == "lock_token"
    by_name = {each["text"].split()[0]: each for each in told["findings"]}
    assert by_name["cron"]["schedule"] == {"cron": "0 6 * * *", "zone": "UTC"}
    assert by_name["cron"]["could_be"] == "every 1d"
    assert by_name["both"]["words"] == "every 30 minutes"
    assert by_name["both"]["review"] == ["schedule_time is not used, since there is an interval"]
    assert by_name["trap"]["review"] == [
        "interval_minutes counts hours here: this job runs every 15 days"
    ]
    assert "over (completed)" in by_name["over"]["why"]
    assert "over (cancelled)" in by_name["cancelled"]["why"]
    assert by_name["bad"]["why"].startswith("schedule_time: ")

    made = await stored(database)
    assert set(made) == {f"interval-scheduler/{name}" for name in list(ROWS)[:6]}
    paused, off, once = (made[f"interval-scheduler/{name}"] for name in ("paused", "off", "once"))
    assert (paused.pulse.state, off.pulse.state) == (State.PAUSED, State.DISABLED)
    assert once.definition.timetable.schedule.to_text() == "once 2030-02-01T00:00:00Z"
    # Six hours, and the beats where they were.
    assert paused.definition.timetable.schedule.to_text() == "every 6h phase=1h7m"
    assert (paused.definition.policy.max_attempts, paused.definition.kind) == (6, "crawl")
    assert made["interval-scheduler/cron"].definition.payload["metadata"] == {"a": 1}
    assert await verify(database) == []


def test_a_file_that_is_not_there_is_one_clear_line(evenbeat, refuses) -> None:
    said = refuses(evenbeat("import", "crontab", "nowhere"))
    assert said == "nowhere: cannot be read: No such file or directory"


def test_a_file_in_another_encoding_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"# ok\n* * * * * \xe4\n")
    with pytest.raises(InvalidInput, match="line 2 is not UTF-8"):
        importing.read_text(str(tmp_path / "latin"))


def test_the_zone_of_the_machine_is_cron_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", ":Asia/Tokyo")
    assert importing.machine_zone() == ("Asia/Tokyo", "TZ")
    monkeypatch.delenv("TZ")
    link, file = tmp_path / "localtime", tmp_path / "timezone"
    monkeypatch.setattr(importing, "ZONE_FILES", (link, file))
    assert importing.machine_zone() == ("UTC", "nothing on this machine")
    file.write_text("Europe/Berlin\n")
    assert importing.machine_zone() == ("Europe/Berlin", str(file))
    link.symlink_to("/usr/share/zoneinfo/Asia/Kathmandu")
    assert importing.machine_zone() == ("Asia/Kathmandu", str(link))
