"""Reading a crontab: what cron makes of each line."""

import pytest

from evenbeat.core.time import crontab
from evenbeat.core.time.crontab import (
    CrontabEntry,
    CrontabSetting,
    UnreadableLine,
    parse_crontab,
    split_command,
)

REAL = """\
# m h dom mon dow command\r
SHELL=/bin/bash
PATH = "/usr/local/bin:/usr/bin"
MAILTO=ops@example.com

CRON_TZ=Europe/Berlin
*/15 * * * *  /usr/bin/backup  --all\t
\t@daily find /tmp -mtime +7 -delete
@reboot /opt/start
0 9 * * MON-FRI mail -s "due 100\\%" a@example.com%Dear A,%%the end
 # indented comment
30 2 1,15 * 5 report
5 4 * *
0 0 * * * """


def entries(text: str, **options: bool) -> list[CrontabEntry]:
    return [line for line in parse_crontab(text, **options).lines if isinstance(line, CrontabEntry)]


def test_every_line_is_accounted_for() -> None:
    found = parse_crontab(REAL)
    assert len(found.lines) + found.comments + found.blanks == REAL.count("\n") + 1
    assert (found.comments, found.blanks) == (2, 1)
    assert [line.number for line in found.lines] == [2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14]
    assert found.has_carriage_returns
    assert not found.has_user_column


def test_a_setting_holds_for_the_lines_below_it() -> None:
    first, second = entries("A=1\n* * * * * one\nA='2 '\n* * * * * two\nA=3\n")
    assert (first.settings, second.settings) == ({"A": "1"}, {"A": "2 "})


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("PATH=/bin:/usr/bin", "PATH", "/bin:/usr/bin"),
        ("  PATH  =  /bin  ", "PATH", "/bin"),
        ('A="x y "', "A", "x y "),
        ("'A'='x'", "A", "x"),
        ("A=", "A", ""),
        ('A=""', "A", ""),
        ('A="x', "A", '"x'),
        ("A=b=c # no comment", "A", "b=c # no comment"),
    ],
)
def test_settings_are_read_as_cron_reads_them(line: str, name: str, value: str) -> None:
    [setting] = parse_crontab(line).lines
    assert isinstance(setting, CrontabSetting)
    assert (setting.name, setting.value) == (name, value)


def test_an_assignment_behind_the_schedule_belongs_to_the_command() -> None:
    [entry] = entries("* * * * * A=1 run\n")
    assert entry.command == "A=1 run"


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        ("run", "run", None),
        (r"date +\%F", "date +%F", None),
        ("cat%one%two", "cat", "one\ntwo\n"),
        ("cat%one%", "cat", "one\n"),
        ("cat%", "cat", None),
        ("cat%%", "cat", "\n"),
        (r"cat%100\%%end", "cat", "100%\nend\n"),
        (r"echo a\b", r"echo a\b", None),
        # Two backslashes are a pair in the command, and none in what follows it.
        (r"echo \\%in", "echo \\\\", "in\n"),
        (r"cat%a\\%b", "cat", "a\\%b\n"),
    ],
)
def test_a_percent_sign_ends_the_command(text: str, command: str, stdin: str | None) -> None:
    assert split_command(text) == (command, stdin)


def test_a_line_is_never_continued() -> None:
    found = parse_crontab("* * * * * one \\\n  two\n")
    entry, rest = found.lines
    assert isinstance(entry, CrontabEntry)
    assert entry.command == "one \\"
    assert isinstance(rest, UnreadableLine)


def test_tabs_trailing_blanks_and_carriage_returns_do_not_reach_the_schedule() -> None:
    [entry] = entries("\t*/5\t*  *\t* *\trun  \r\n")
    assert (entry.schedule, entry.command) == ("*/5 * * * *", "run  ")


SYSTEM = "SHELL=/bin/sh\n17 * * * * root cd / && run-parts\n@daily www-data php x.php\n"


def test_a_column_of_users_is_found_by_root_and_known_users() -> None:
    found = parse_crontab(SYSTEM, users=["www-data"])
    assert found.has_user_column
    users = [line.user for line in found.lines if isinstance(line, CrontabEntry)]
    assert users == ["root", "www-data"]
    assert not parse_crontab(SYSTEM, users=[]).has_user_column


def test_commands_that_are_users_too_are_commands() -> None:
    assert not parse_crontab(
        "* * * * * mail -s x y\n* * * * * sync\n", users=["mail", "sync"]
    ).has_user_column


def test_what_is_said_of_the_user_column_counts() -> None:
    [entry] = entries("* * * * * deploy run it\n", has_user_column=True)
    assert (entry.user, entry.command) == ("deploy", "run it")
    [entry] = entries("* * * * * root\n", has_user_column=False)
    assert (entry.user, entry.command) == (None, "root")


def test_a_user_without_a_command_is_told() -> None:
    [line] = parse_crontab("* * * * * root\n", has_user_column=True).lines
    assert isinstance(line, UnreadableLine)
    assert line.why == "has no command"


DOUBTS = {
    "0 0 13 * 5": "runs on days 13 of the month and on weekdays 5 as well: cron joins them by or",
    "0 0 */2 * 1": "both the day of the month (*/2) and the weekday (1) must fit, since one of them"
    " begins with *",
    "5/10 * * * *": "5/10 begins at 5; some crons take it alone",
}


@pytest.mark.parametrize(("schedule", "doubt"), DOUBTS.items())
def test_what_people_get_wrong_is_to_be_looked_at(schedule: str, doubt: str) -> None:
    [entry] = entries(f"{schedule} run")
    assert crontab.find_warnings(entry, "UTC") == (doubt,)


@pytest.mark.parametrize("schedule", ["0 0 * * 5", "0 0 13 * *", "*/10 * * * *", "1-59/2 * * * *"])
def test_what_is_plain_raises_no_doubt(schedule: str) -> None:
    [entry] = entries(f"{schedule} run")
    assert crontab.find_warnings(entry, "UTC") == ()


def test_a_zone_for_the_command_is_not_cron_s() -> None:
    [entry] = entries("TZ=Asia/Tokyo\n* * * * * run")
    assert crontab.find_warnings(entry, "UTC") == (
        "TZ=Asia/Tokyo is for the command alone: cron beats by UTC",
    )


def test_an_empty_file_has_no_lines() -> None:
    assert parse_crontab("").lines == ()
    assert parse_crontab("\n").blanks == 1
