"""Cron beats equal those of a walk through every minute, over the clock changes that hurt most."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.core.time.schedules import Dst
from evenbeat.core.time.schedules.cron import Cron
from tests.core.time.minute_walker import beats, clock_changes
from tests.core.time.schedule_strategies import FIVE, fields, is_possible

# The day of the change; the walk begins a day before and ends a day after.
CHANGES = {
    "Berlin leaps over 02:00-03:00": ("Europe/Berlin", date(2026, 3, 29)),
    "Berlin repeats 02:00-03:00": ("Europe/Berlin", date(2026, 10, 25)),
    "New York leaps over 02:00-03:00": ("America/New_York", date(2026, 3, 8)),
    "New York repeats 01:00-02:00": ("America/New_York", date(2026, 11, 1)),
    "Lord Howe leaps half an hour": ("Australia/Lord_Howe", date(2026, 10, 4)),
    "Lord Howe repeats half an hour": ("Australia/Lord_Howe", date(2026, 4, 5)),
    "Casablanca goes back for Ramadan": ("Africa/Casablanca", date(2026, 2, 15)),
    "Casablanca leaps after Ramadan": ("Africa/Casablanca", date(2026, 3, 22)),
    "Sao Paulo has no midnight": ("America/Sao_Paulo", date(2018, 11, 4)),
    "Sao Paulo repeats the last hour of a day": ("America/Sao_Paulo", date(2018, 2, 18)),
    "Pyongyang repeats the last half hour of a day": ("Asia/Pyongyang", date(2015, 8, 15)),
    "Apia has no 30 December": ("Pacific/Apia", date(2011, 12, 31)),
    "a leap day": ("Europe/Berlin", date(2028, 2, 29)),
    "no leap day in 2100": ("UTC", date(2100, 2, 28)),
    "a new year": ("Asia/Kathmandu", date(2027, 1, 1)),
}

# Half of the hours are those around clock changes; days often match.
HOURS = fields(0, 23) | fields(0, 3) | st.sampled_from(["23", "0", "1", "2", "23,0,1", "0-3"])
DAYS = st.just("*") | FIVE[2]
MONTHS = st.just("*") | FIVE[3]
WEEKDAYS = st.just("*") | FIVE[4]
FIXED = fields(0, 59).filter(lambda field: not field.startswith("*"))
LINES = (
    (st.tuples(FIVE[0] | FIXED, HOURS, DAYS, MONTHS, WEEKDAYS)).map(" ".join).filter(is_possible)
)
POLICIES = st.tuples(st.sampled_from(["after", "skip"]), st.sampled_from(["once", "both"]))

NEAR = timedelta(minutes=100)

every_change = pytest.mark.parametrize(("zone", "day"), CHANGES.values(), ids=CHANGES.keys())


def check(expression: str, zone: str, day: date, policy: tuple[str, str] | None = None) -> None:
    noon = datetime.combine(day, time(12), UTC)
    start, end = noon - timedelta(days=2), noon + timedelta(days=1)
    cron = Cron(expression, zone=zone, dst=policy and Dst(*policy))
    expected = beats(expression, zone, start, end, policy)
    changes = clock_changes(zone, start, end)
    # A line of every minute has thousands: those near a change are all looked at.
    stride = len(expected) // 50 + 1
    for place, (before, beat) in enumerate(pairwise([start, *expected])):
        if place % stride == 0 or any(abs(beat - change) < NEAR for change in changes):
            assert cron.next_after(before) == beat
    after_all = cron.next_after(expected[-1] if expected else start)
    assert after_all is None or after_all > end


@every_change
@settings(max_examples=70, deadline=None)
@given(expression=LINES)
def test_beats_are_those_of_the_daemon(expression: str, zone: str, day: date):
    check(expression, zone, day)


@every_change
@settings(max_examples=25, deadline=None)
@given(expression=LINES, policy=POLICIES)
def test_beats_are_those_of_the_chosen_rule(
    expression: str, policy: tuple[str, str], zone: str, day: date
):
    check(expression, zone, day, policy)


@every_change
@pytest.mark.parametrize(
    "expression",
    [
        "*/15 2 * * *",
        "*/15 3 * * *",
        "45 * * * *",
        "*/15 0 * * *",
        "*/20 * * * SUN",
        "30 2 * * *",
        "30 1 * * *",
        "0 0 * * *",
        "15 0,1,2,23 * * *",
    ],
)
def test_lines_on_which_libraries_err_are_right(expression: str, zone: str, day: date):
    check(expression, zone, day)
