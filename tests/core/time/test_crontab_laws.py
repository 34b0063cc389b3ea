"""Laws of moving in: nothing of a crontab is lost, and an interval is named where it is one."""

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenbeat.core.jobs.imports import find_interval, read_crontab_candidates
from evenbeat.core.time.crontab import (
    CrontabEntry,
    CrontabSetting,
    UnreadableLine,
    parse_crontab,
    split_command,
)
from evenbeat.core.time.schedules.cron import Cron
from tests.core.time.schedule_strategies import FIVE, is_possible

LINES = st.tuples(*FIVE).map(" ".join).filter(is_possible)
COMMANDS = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r\0"), min_size=1, max_size=40
).filter(lambda text: bool(text.split("%")[0].strip(" \t")) and bool(text.split()))
ANYTHING = st.text(st.characters(codec="utf-8"), max_size=300)
MINUTES = {
    "*": range(60),
    "*/7": range(0, 60, 7),
    "*/15": range(0, 60, 15),
    "0,30": (0, 30),
    "7": (7,),
    "10-50/10": range(10, 51, 10),
}
HOURS = {"*": range(24), "*/5": range(0, 24, 5), "*/6": range(0, 24, 6), "3": (3,), "0,12": (0, 12)}
DAYS = {
    "* * *": lambda _: True,
    "* * 1": lambda day: day.weekday() == 0,
    "* * 1,4": lambda day: day.weekday() in (0, 3),
    "1 * *": lambda day: day.day == 1,
    "*/2 * *": lambda day: day.day % 2 == 1,
    "* 6 *": lambda day: day.month == 6,
}
YEARS = [date(2026, 1, 1) + timedelta(days=number) for number in range(800)]


@settings(max_examples=40)
@given(ANYTHING)
def test_every_line_of_any_text_is_accounted_for(text: str) -> None:
    found = parse_crontab(text)
    count = text.removeprefix("\ufeff").removesuffix("\n").count("\n") + 1 if text else 0
    assert len(found.lines) + found.comments + found.blanks == count
    told = list(read_crontab_candidates(found, zone="UTC", prefix="x/"))
    assert [each.line for each in told] == [line.number for line in found.lines]
    for each, line in zip(told, found.lines, strict=True):
        assert (each.definition is None) or isinstance(line, CrontabEntry)
        assert (each.why is None) or isinstance(line, CrontabEntry | UnreadableLine)
        assert isinstance(line, CrontabSetting) == (each.definition is None and each.why is None)


@given(LINES, COMMANDS)
def test_schedule_and_command_come_through_unchanged(schedule: str, command: str) -> None:
    written = command.replace("\\", "").lstrip(" \t").replace("%", r"\%")
    assume(written)
    [line] = parse_crontab(f"{schedule} {written}\n").lines
    assert isinstance(line, CrontabEntry)
    assert line.schedule == " ".join(schedule.split())
    assert line.command == written.replace(r"\%", "%")
    assert line.stdin is None


@given(st.text(st.sampled_from("ab\\%"), max_size=12))
def test_as_many_percent_signs_come_out_as_were_escaped(text: str) -> None:
    command, stdin = split_command(text)
    assert len(command) <= len(text)
    assert (stdin is None) or stdin.endswith("\n")
    if "%" not in text:
        assert (command, stdin) == (text, None)


@pytest.mark.parametrize("days", DAYS)
@pytest.mark.parametrize("hour", HOURS)
def test_a_cron_is_an_interval_exactly_where_all_its_beats_are_as_far_apart(
    hour: str, days: str
) -> None:
    for minute in MINUTES:
        times = [60 * h + m for h in HOURS[hour] for m in MINUTES[minute]]
        dates = [day for day in YEARS if DAYS[days](day)]
        gaps = {later - earlier for earlier, later in pairwise(times)} | {
            1440 * (later - earlier).days - times[-1] + times[0]
            for earlier, later in pairwise(dates)
        }
        expected = timedelta(minutes=min(gaps)) if len(gaps) == 1 else None
        assert find_interval(Cron(f"{minute} {hour} {days}")) == expected
