"""What a schedule will do, told in advance."""

from datetime import UTC, datetime, timedelta

import pytest

from evenbeat.core.time.preview import preview_timetable
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable

WINTER = datetime(2027, 1, 10, tzinfo=UTC)
SUMMER = datetime(2027, 7, 10, tzinfo=UTC)


def look(text: str, now: datetime = WINTER, count: int = 3):
    return preview_timetable(Timetable(parse_schedule(text)), now, count)


def test_a_weekday_morning_in_berlin_is_told_in_words_and_beats() -> None:
    found = look("0 8 * * MON-FRI Europe/Berlin")
    assert found.words == "at 08:00 on Monday through Friday (Europe/Berlin)"
    assert found.beats == tuple(datetime(2027, 1, day, 7, tzinfo=UTC) for day in (11, 12, 13))
    assert found.zone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "now", "told"),
    [
        (
            "daily 02:30 Europe/Berlin",
            WINTER,
            "Clocks in Europe/Berlin go forward 1 hour on Sunday 28 March 2027 at 02:00: "
            "02:30 does not exist that day, and runs right after, at 03:00.",
        ),
        (
            "daily 02:30 Europe/Berlin dst=skip/once",
            WINTER,
            "Clocks in Europe/Berlin go forward 1 hour on Sunday 28 March 2027 at 02:00: "
            "02:30 does not exist that day, and is skipped.",
        ),
        (
            "daily 02:30 Europe/Berlin",
            SUMMER,
            "Clocks in Europe/Berlin go back 1 hour on Sunday 31 October 2027 at 03:00: "
            "02:30 comes twice that day, and runs the first time only.",
        ),
        (
            "*/30 * * * * Europe/Berlin",
            SUMMER,
            "Clocks in Europe/Berlin go back 1 hour on Sunday 31 October 2027 at 03:00: "
            "02:00 comes twice that day, and runs both times.",
        ),
        (
            "*/7 * * * * Europe/Berlin",
            WINTER,
            "Clocks in Europe/Berlin go forward 1 hour on Sunday 28 March 2027 at 02:00: "
            "beats follow elapsed time, and go on at 03:00.",
        ),
        (
            "*/7 2 * * * Europe/Berlin",
            WINTER,
            "Clocks in Europe/Berlin go forward 1 hour on Sunday 28 March 2027 at 02:00: "
            "02:00 does not exist that day, and is skipped.",
        ),
        (
            "daily 06:00 Australia/Lord_Howe",
            WINTER,
            "Clocks in Australia/Lord_Howe go back 30 minutes on Sunday 4 April 2027 at 02:00: "
            "no beat falls into the change, and beats keep their time on the clock.",
        ),
    ],
)
def test_the_next_clock_change_is_told_with_what_it_does(
    text: str, now: datetime, told: str
) -> None:
    assert look(text, now).remark == told


@pytest.mark.parametrize("text", ["daily 06:00", "every 30m", "daily 06:00 Asia/Tokyo", "now"])
def test_no_remark_is_made_where_no_clock_changes(text: str) -> None:
    assert look(text).remark is None


def test_now_has_exactly_one_beat_which_is_now() -> None:
    assert look("now").beats == (WINTER,)


def test_an_instant_that_has_passed_would_run_at_once() -> None:
    found = look("once 2026-12-01T08:00:00Z")
    assert found.beats == (datetime(2026, 12, 1, 8, tzinfo=UTC),)
    assert found.remark == "This instant has passed: the job would run at once."
    assert look("once 2027-12-01T08:00:00Z").remark is None


def test_an_interval_starts_one_interval_from_now() -> None:
    found = look("every 90m")
    assert found.beats == tuple(WINTER + timedelta(minutes=90 * n) for n in (1, 2, 3))
    assert found.effective_period == timedelta(minutes=90)
