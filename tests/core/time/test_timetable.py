"""Timetables: bounds, windows, lists of beats."""

from datetime import UTC, datetime, timedelta

import pytest

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules import Schedule, parse_schedule
from evenbeat.core.time.schedules.base.window import Window
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.timetable import Timetable, TimetableBounds

NOON = datetime(2026, 11, 4, 12, tzinfo=UTC)  # a Wednesday


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def timetable(schedule: str, window: str | None = None, **bounds: object) -> Timetable:
    fields = {name: value for name, value in (("window", window),) if value} | bounds
    return Timetable.from_object({"schedule": schedule, **fields})


class Counted(Schedule):
    """Counts how often a schedule is asked."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.asked = schedule, 0

    def next_after(self, instant: datetime) -> datetime | None:
        self.asked += 1
        return self.schedule.next_after(instant)

    from_words = from_value = _next_after = describe = words = value = None  # type: ignore[assignment]


def test_beats_exist_from_the_start_up_to_the_end():
    table = timetable("daily 06:00", starts_at="2026-11-06T06:00Z", ends_at="2026-11-08T06:00Z")
    assert table.next_beats(NOON, 10) == (at("2026-11-06T06:00Z"), at("2026-11-07T06:00Z"))


def test_used_up_runs_end_the_beats():
    table = timetable("daily 06:00", max_runs=3)
    assert len(table.next_beats(NOON, 10)) == 3
    assert len(table.next_beats(NOON, 10, runs_so_far=2)) == 1
    assert table.next_after(NOON, runs_so_far=2) is not None
    assert table.next_after(NOON, runs_so_far=3) is None


def test_an_interval_starts_where_its_bounds_do():
    table = timetable("every 5h", starts_at="2026-11-06T07:30Z").planned_at(NOON)
    assert table.next_beats(NOON, 2) == (at("2026-11-06T07:30Z"), at("2026-11-06T12:30Z"))
    assert timetable("every 5h").planned_at(NOON).next_after(NOON) == NOON + timedelta(hours=5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_runs", {"max_runs": 0}),
        ("max_runs", {"max_runs": True}),
        ("max_runs", {"max_runs": 10**12}),
        ("starts_at", {"starts_at": "2026-11-06T07:30"}),
        ("starts_at", {"starts_at": "infinity"}),
        ("ends_at", {"ends_at": "9999-12-31T23:59:59-14:00"}),
        ("ends_at", {"starts_at": "2026-11-06T07:30Z", "ends_at": "2026-11-06T07:30Z"}),
        ("colour", {"colour": "red"}),
        ("window", {"window": ""}),
        ("window", {"window": 5}),
        ("window", {"window": "9-17"}),
        ("window", {"window": "09:00-09:00"}),
        ("window", {"window": "25:00-26:00"}),
        ("window", {"window": "someday 09:00-17:00"}),
        ("window", {"window": "09:00:30-17:00"}),
        ("window", {"window": "09:00-17:00\0"}),
        ("window", {"window": "0" * 5000}),
        ("window", {"window": ", ".join(["09:00-17:00"] * 15)}),
        ("window.zone", {"window": "09:00-17:00 Mars/Base"}),
        ("window.zone", {"window": "mon-fri"}),
        ("window.outside", {"window": "09:00-17:00 outside=wait"}),
        ("window.open", {"window": {"zone": "UTC"}}),
        ("window.open", {"window": {"open": [5]}}),
        ("window.colour", {"window": {"open": ["09:00-17:00"], "colour": "red"}}),
        ("window", {"window": {"open": ["09:00-17:00"] * 5000}}),
    ],
)
def test_bad_bounds_and_windows_are_refused_by_name(field: str, value: dict[str, object]):
    with pytest.raises(InvalidInput) as refusal:
        Timetable.from_object({"schedule": "daily 06:00", **value})
    assert refusal.value.errors[0].field == field


def test_a_beat_outside_moves_to_the_next_opening_and_those_moved_become_one():
    table = timetable("hourly", "22:00-02:00")
    assert table.next_beats(NOON, 5) == (
        at("2026-11-04T22:00Z"),
        at("2026-11-04T23:00Z"),
        at("2026-11-05T00:00Z"),
        at("2026-11-05T01:00Z"),
        at("2026-11-05T22:00Z"),
    )


def test_a_beat_outside_is_skipped_if_so_declared():
    table = timetable("0 */5 * * *", "22:00-06:00 outside=skip")
    assert table.next_beats(NOON, 3) == (
        at("2026-11-05T00:00Z"),
        at("2026-11-05T05:00Z"),
        at("2026-11-06T00:00Z"),
    )


def test_a_beat_moved_in_the_closed_time_is_found_from_within_it():
    table = timetable("daily 03:00", "09:00-17:00")
    assert table.next_after(at("2026-11-05T04:00Z")) == at("2026-11-05T09:00Z")
    assert table.next_after(at("2026-11-05T09:00Z")) == at("2026-11-06T09:00Z")


def test_a_beat_at_the_closing_is_outside():
    assert timetable("daily 17:00", "09:00-17:00").next_after(NOON) == at("2026-11-05T09:00Z")


def test_the_days_of_a_window_over_midnight_are_those_of_its_opening():
    table = timetable("hourly", "fri 22:00-02:00")
    assert table.next_beats(NOON, 5) == (
        at("2026-11-06T22:00Z"),
        at("2026-11-06T23:00Z"),
        at("2026-11-07T00:00Z"),
        at("2026-11-07T01:00Z"),
        at("2026-11-13T22:00Z"),
    )


def test_a_window_opens_by_its_own_wall_clock_over_clock_changes():
    table = timetable("hourly", "01:00-04:00 Europe/Berlin")
    spring = table.beats_between(at("2026-03-28T23:00Z"), at("2026-03-29T12:00Z"), 10)
    autumn = table.beats_between(at("2026-10-24T22:00Z"), at("2026-10-25T12:00Z"), 10)
    assert (spring.total, autumn.total) == (2, 4)


def test_a_window_that_the_clock_leaps_over_opens_a_week_later():
    table = timetable("*/10 * * * *", "sun 02:00-03:00 Europe/Berlin")
    assert table.next_after(at("2026-03-22T12:00Z")) == at("2026-04-05T02:00+02:00")


def test_windows_that_touch_are_one():
    table = timetable("hourly :30", "00:00-12:00, 12:00-24:00")
    assert table.next_after(at("2026-11-04T11:30Z")) == at("2026-11-04T12:30Z")


@pytest.mark.parametrize(
    ("schedule", "window"),
    [
        ("0 3 * * *", "09:00-10:00"),
        ("daily 03:00", "mon-fri 09:00-17:00 Europe/Berlin"),
        ("hourly :30", "09:00-09:15"),
        ("sun 10:00", "mon-sat 09:00-17:00"),
        ("every 1d phase=3h", "09:00-10:00"),
        ("once 2026-11-04T03:00Z", "09:00-10:00"),
        ("0 0 29 2 *", "22:00-23:00"),
        ("daily 12:00 Europe/London", "00:00-06:00 America/New_York"),
        ("daily 02:30 Europe/Rome dst=skip/once", "03:00-03:01 Europe/Rome"),
        ("every 1h phase=30m", "09:00-09:15 Europe/Berlin"),
    ],
)
def test_a_window_that_admits_no_beat_is_refused(schedule: str, window: str):
    with pytest.raises(InvalidInput, match="window: no beat"):
        timetable(schedule, f"{window} outside=skip")


@pytest.mark.parametrize(
    ("schedule", "window", "first"),
    [
        # A minute earlier each day: three years pass before it comes around.
        ("every 1439m phase=884m", "00:00-00:30", "2003-11-11T00:29Z"),
        ("every 86399s phase=1h", "20:30-20:31", "2014-03-11T20:30:59Z"),
        ("0 0 29 2 *", "mon 00:00-01:00", "2016-02-29T00:00Z"),
        # Only right after the leap, and only where the clock leaps.
        ("daily 02:30 Europe/Rome", "03:00-03:01 Europe/Rome", "2000-03-26T01:00Z"),
        # Only in the repeated hour, through which the window stays open.
        ("every 1d phase=85m", "02:45-03:00 Europe/Rome", "2000-10-29T01:25Z"),
        ("every 1d phase=30m", "00:00-01:00 Europe/London", "2000-01-01T00:30Z"),
    ],
)
def test_a_beat_that_is_rarely_inside_is_found(schedule: str, window: str, first: str):
    table = timetable(schedule, f"{window} outside=skip")
    assert table.next_after(at("2000-01-01T00:00Z")) == at(first)


def test_a_leap_day_on_a_monday_comes_again_after_a_century_without_one():
    table = timetable("0 0 29 2 *", "mon 00:00-01:00 outside=skip")
    assert table.next_after(at("2072-03-01T00:00Z")) == at("2112-02-29T00:00Z")


def test_a_window_waits_for_what_is_not_decided_yet():
    for schedule in ("every 1d", "now", "H 3 * * *"):
        assert timetable(schedule, "09:00-10:00 outside=skip")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("22:00-06:00 Europe/Berlin", "22:00-06:00 Europe/Berlin"),
        ("22:00\N{EN DASH}06:00", "22:00-06:00"),
        ("Mon-Fri 09:00 - 17:00", "mon-fri 09:00-17:00"),
        ("mon,wed,thu 09:00-17:00; sat 10:00-24:00", "mon,wed-thu 09:00-17:00, sat 10:00-24:00"),
        ("fri-mon 00:00-24:00 outside=skip", "mon,fri-sun 00:00-24:00 outside=skip"),
        ("09:00-17:00 zone=Europe/Berlin outside=skip", "09:00-17:00 Europe/Berlin outside=skip"),
    ],
)
def test_a_window_goes_back_and_forth(text: str, printed: str):
    window = Window.parse(text)
    assert window.to_text() == printed
    assert Window.parse(printed) == window
    assert Window.parse(window.to_object()) == window


def test_a_week_of_seconds_is_counted_without_being_walked():
    table = Timetable(Every(timedelta(seconds=1), timedelta(0)))
    counted = Counted(table.schedule)
    beats = table.beats_between(NOON, NOON + timedelta(weeks=1), 10)
    assert beats.instants == tuple(NOON + timedelta(seconds=n) for n in range(1, 11))
    assert (beats.total, beats.is_exact) == (604_800, True)
    assert Timetable(counted).beats_between(NOON, NOON + timedelta(weeks=1), 10).total == 11
    assert counted.asked == 11


def test_counted_beats_keep_to_bounds_and_runs():
    start, end = NOON, NOON + timedelta(days=1)
    every = {"schedule": {"every": 60, "phase": 0}}
    bounded = Timetable.from_object(every | {"ends_at": "2026-11-04T13:00Z"})
    assert bounded.beats_between(start, end, 5).total == 59
    limited = Timetable.from_object(every | {"max_runs": 100})
    assert limited.beats_between(start, end, 5, runs_so_far=10).total == 90


def test_more_beats_than_the_cap_are_said_to_be_at_least_so_many():
    beats = timetable("* * * * *").beats_between(NOON, NOON + timedelta(weeks=1), 100)
    assert (len(beats.instants), beats.total, beats.is_exact) == (100, 101, False)


def test_all_beats_within_the_cap_are_exact_and_the_end_is_included():
    beats = timetable("hourly").beats_between(NOON, NOON + timedelta(hours=3), 3)
    assert (len(beats.instants), beats.total, beats.is_exact) == (3, 3, True)


def test_a_cap_that_is_absurd_is_refused():
    with pytest.raises(InvalidInput, match="cap"):
        timetable("hourly").beats_between(NOON, NOON, 10**9)


@pytest.mark.parametrize(
    ("schedule", "window", "latest"),
    [
        ("* * * * *", None, "2026-11-04T12:00Z"),
        ("every 7s phase=3s", None, "2026-11-04T11:59:59Z"),
        ("*/10 * * * *", "22:00-06:00 outside=skip", "2026-11-04T05:50Z"),
        ("daily 03:00", "09:00-17:00", "2026-11-04T09:00Z"),
        ("0 0 1 1 *", None, "2026-01-01T00:00Z"),
    ],
)
def test_the_latest_beat_is_found_in_a_few_steps(schedule: str, window: str | None, latest: str):
    table = timetable(schedule, window)
    counted = Counted(table.schedule)
    object.__setattr__(table, "schedule", counted)
    assert table.latest_between(NOON - timedelta(days=700), NOON) == at(latest)
    assert counted.asked < 150


def test_there_may_be_no_latest_beat():
    assert timetable("0 0 1 1 *").latest_between(NOON - timedelta(days=7), NOON) is None


def test_a_timetable_goes_back_and_forth():
    table = Timetable.from_object(
        {
            "schedule": "0 8 * * MON-FRI Europe/Berlin",
            "starts_at": "2026-11-06T07:30:00+01:00",
            "ends_at": "2027-11-06T07:30:00Z",
            "max_runs": 12,
            "window": "mon-fri 09:00-17:00 Europe/Berlin",
        }
    )
    assert Timetable.from_object(table.to_object()) == table
    assert table.describe() == (
        "at 08:00 on Monday through Friday (Europe/Berlin);"
        " only mon-fri 09:00-17:00 (Europe/Berlin), otherwise moved to the next opening;"
        " from 2026-11-06T06:30:00Z; until 2027-11-06T07:30:00Z; 12 runs in all"
    )
    assert Timetable.from_object({"schedule": "now"}) == Timetable(parse_schedule("now"))
    assert TimetableBounds(max_runs=1).describe() == "1 run in all"


def test_a_window_lengthens_the_average_distance():
    assert timetable("hourly").effective_period(NOON) == timedelta(hours=1)
    windowed = timetable("hourly", "00:00-12:00 outside=skip").effective_period(NOON)
    assert windowed is not None
    assert timedelta(minutes=110) < windowed < timedelta(minutes=130)
    assert timetable("now").effective_period(NOON) is None


@pytest.mark.parametrize(
    ("schedule", "window", "beats"),
    [
        # Spans that meet, over Sunday night and all around the week.
        ("hourly :30", "00:00-00:01, 00:01-00:00", ("2026-11-04T12:30Z", "2026-11-04T13:30Z")),
        (
            "every 1h phase=30m",
            "00:00-12:00, 12:00-00:00",
            ("2026-11-04T12:30Z", "2026-11-04T13:30Z"),
        ),
        (
            "daily 08:00",
            "sun 22:00-06:00, mon 06:00-12:00",
            ("2026-11-09T08:00Z", "2026-11-16T08:00Z"),
        ),
        (
            "every 1d phase=8h",
            "sun 22:00-06:00, mon 06:00-12:00",
            ("2026-11-09T08:00Z", "2026-11-16T08:00Z"),
        ),
    ],
)
def test_spans_that_meet_are_one(schedule: str, window: str, beats: tuple[str, ...]):
    table = timetable(schedule, f"{window} outside=skip")
    assert table.next_beats(NOON, 2) == tuple(map(at, beats))


def test_a_window_that_stays_open_while_its_own_clock_is_set_back_catches_beats_of_another_zone():
    """Berlin repeats an hour; Lord Howe, where the schedule is from, knows nothing of it."""
    schedule = parse_schedule("daily 12:38:50 Australia/Lord_Howe")
    table = Timetable(schedule, window=Window.parse("02:45-03:00 Europe/Berlin outside=skip"))
    first = table.next_after(datetime(2000, 1, 1, tzinfo=UTC))
    assert first == datetime(2000, 10, 29, 1, 38, 50, tzinfo=UTC)
