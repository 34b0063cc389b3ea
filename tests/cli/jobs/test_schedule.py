"""`evenbeat schedule`, for people to play with."""

import json

import pytest

from tests.cli.conftest import Command


@pytest.fixture
def schedule(evenbeat: Command) -> Command:
    return lambda *arguments: evenbeat("schedule", *arguments)


def test_it_tells_words_ten_beats_and_a_remark_on_the_clock_change(schedule: Command) -> None:
    told = schedule("0 8 * * MON-FRI", "--tz", "Europe/Berlin", "--from", "2027-03-20")
    assert told.returncode == 0, told.stderr
    assert "At 08:00 on Monday through Friday (Europe/Berlin)" in told.stdout
    assert told.stdout.count(" 08:00:00 ") == 10
    assert "Mon 2027-03-22 08:00:00 CET (+0100)" in told.stdout
    assert "Mon 2027-03-29 08:00:00 CEST (+0200)" in told.stdout
    assert "Clocks in Europe/Berlin go forward 1 hour on Sunday 28 March 2027" in told.stdout


def test_an_interval_is_shown_in_the_zone_asked_for(schedule: Command) -> None:
    told = schedule("every 30m", "-n", "1", "--tz", "Asia/Tokyo", "--from", "2027-03-20T00:00:00Z")
    assert told.returncode == 0, told.stderr
    assert "Sat 2027-03-20 09:30:00 JST (+0900)" in told.stdout


def test_json_carries_the_same_for_programs(schedule: Command) -> None:
    told = schedule("every 30m", "-n", "2", "--from", "2027-03-20T00:00:00Z", "-o", "json")
    found = json.loads(told.stdout)
    assert found["words"] == "every 30 minutes"
    assert found["beats"] == ["2027-03-20T00:30:00Z", "2027-03-20T01:00:00Z"]
    assert found["effective_period"] == 1800


def test_a_name_chooses_the_values_of_h_and_always_the_same(schedule: Command) -> None:
    arguments = ("H H(0-7) * * *", "--from", "2027-03-20", "-o", "json")
    first, again, other = (
        schedule(*arguments, "--name", name).stdout for name in ("report", "report", "backup")
    )
    assert first == again
    assert json.loads(first)["beats"] != json.loads(other)["beats"]
    assert "name" in schedule(*arguments).stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("0 8 * * MON-FRI", "--tz", "Nowhere"), "schedule.zone: 'Nowhere' is not a known"),
        (("every 30m", "--tz", "Nowhere"), "--tz: 'Nowhere' is not a known"),
        (("0 0 31 2 *",), "schedule.cron: '0 0 31 2 *'"),
        (("every 30x",), "schedule.every: '30x' is not a duration"),
        (("０ ０ * * *",), "schedule"),
        (("* * * * * * *",), "schedule.cron"),
        (("1-100000000 * * * *",), "schedule.cron"),
        (("every 30m", "--from", "tomorrow"), "--from: write an instant"),
        (("every 30m", "--from", "0001-01-01T00:00:00+14:00"), "--from: must lie between"),
        (("every 30m", "--from", "9999-12-31T23:59:59-14:00"), "--from: must lie between"),
        (("0 8 * * * Asia/Tokyo", "--tz", "Europe/Berlin"), "schedule.zone: is given twice"),
        (("sun 02:00 Asia/Tokyo", "--tz", "Europe/Berlin"), "schedule.zone: is given twice"),
    ],
)
def test_what_cannot_be_is_one_clear_line(
    schedule: Command, arguments: tuple[str, ...], told: str
) -> None:
    answer = schedule(*arguments)
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr.startswith("evenbeat: ")
    assert answer.stderr.count("\n") == 1
    assert told in answer.stderr
