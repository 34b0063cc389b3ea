"""How commands show things."""

from datetime import UTC, datetime, timedelta

import pytest

from evenbeat.cli.shell import printing

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("away", "shown"),
    [
        (timedelta(hours=1, minutes=30, seconds=9), "2030-01-01 13:30:09Z (in 1h30m)"),
        (timedelta(seconds=-90), "2030-01-01 11:58:30Z (1m30s ago)"),
        (timedelta(milliseconds=300), "2030-01-01 12:00:00Z (now)"),
        (-timedelta(days=40, hours=2), "2029-11-22 10:00:00Z (40d2h ago)"),
    ],
)
def test_an_instant_is_exact_and_says_how_far_away_it_is(away: timedelta, shown: str) -> None:
    assert printing.format_moment(NOW + away, NOW) == shown


def test_there_is_nothing_to_say_of_no_instant() -> None:
    assert printing.format_moment(None, NOW) is None


def test_fields_stand_below_each_other_and_those_without_a_value_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printing.print_fields({"name": "a", "labels": "", "last error": None, "priority": 0})
    assert capsys.readouterr().out == "name      a\npriority  0\n"


@pytest.mark.parametrize("text", ["[/etc/x] gone", "[error] boom", "[bold]", ":smile:"])
def test_a_cell_is_shown_as_it_is_whatever_stands_in_brackets(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printing.print_table(("error",), [(text,)], printing.Format.TABLE)
    assert capsys.readouterr().out.splitlines()[1].rstrip() == text


@pytest.mark.parametrize(("number", "shown"), [(0, "0 jobs"), (1, "1 job"), (1234, "1,234 jobs")])
def test_a_number_of_things(number: int, shown: str) -> None:
    assert printing.format_count(number, "job") == shown
