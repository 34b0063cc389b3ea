"""Durations, read and printed."""

from datetime import timedelta

import pytest

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import (
    EXACT_DURATION,
    DurationLimits,
    describe_duration,
    format_duration,
    parse_duration,
    round_for_people,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("1h30m", 5400),
        ("90 seconds", 90),
        ("1 hour 30 minutes", 5400),
        ("2 Days", 172_800),
        ("1w", 604_800),
        ("PT30M", 1800),
        ("P1DT2H", 93_600),
        ("P2W", 1_209_600),
        ("PT1H30M5S", 5405),
        ("1.5h", 5400),
        (90, 90),
        (0, 0),
    ],
)
def test_a_duration_is_read(text: object, seconds: int):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "bad",
    [
        *(
            "",
            " ",
            "30",
            "m",
            "P",
            "PT",
            "P1M",
            "P1Y",
            "5M",
            "30m1h",
            "1h1h",
            "-5m",
            "1e3s",
            "1..5h",
        ),
        *("1.h", ".5h", "1,5h", "30m foo", "\N{FULLWIDTH DIGIT THREE}m", "3\0m", "9" * 5000),
        *("9" * 200 + "s", "11y", "4000d", "0.5s", "250ms", None, True, [], {}, -1, 0.5, 1e400),
        *(float("nan"), 10**30, "PT5", "P1D2H", "1.1234567s"),
    ],
)
def test_what_is_no_duration_is_refused_by_name(bad: object):
    with pytest.raises(InvalidInput, match=r"^lease: "):
        parse_duration(bad, "lease")


@pytest.mark.parametrize(
    ("text", "micros"), [("250ms", 250_000), ("0.5s", 500_000), (0.25, 250_000)]
)
def test_parts_of_a_second_are_read_where_they_are_allowed(text: object, micros: int):
    assert parse_duration(text, limits=EXACT_DURATION) == timedelta(microseconds=micros)


def test_limits_are_kept_and_named():
    limits = DurationLimits(shortest=timedelta(seconds=10), longest=timedelta(hours=1))
    with pytest.raises(InvalidInput, match="at least 10s"):
        parse_duration("5s", limits=limits)
    with pytest.raises(InvalidInput, match="at most 1h"):
        parse_duration("61m", limits=limits)


@pytest.mark.parametrize(
    ("length", "text", "words"),
    [
        (timedelta(minutes=90), "1h30m", "1 hour 30 minutes"),
        (timedelta(0), "0s", "0 seconds"),
        (timedelta(days=1, seconds=1), "1d1s", "1 day 1 second"),
        (timedelta(milliseconds=250), "250ms", "0.25 seconds"),
        (timedelta(seconds=90, microseconds=5), "1m30.000005s", "1 minute 30.000005 seconds"),
    ],
)
def test_a_duration_is_printed_exactly(length: timedelta, text: str, words: str):
    assert format_duration(length) == text
    assert describe_duration(length) == words
    assert parse_duration(text, limits=EXACT_DURATION) == length


@pytest.mark.parametrize(
    ("exact", "rounded"),
    [
        ("3d5h59m", "3d5h"),
        ("1d", "1d"),
        ("23h59m59s", "23h59m"),
        ("1h0m59s", "1h"),
        ("59m59.9s", "59m59s"),
        ("1.9s", "1s"),
        ("900ms", "0s"),
    ],
)
def test_a_coarse_duration_has_two_units_and_is_never_longer(exact: str, rounded: str) -> None:
    assert (
        format_duration(round_for_people(parse_duration(exact, limits=EXACT_DURATION))) == rounded
    )


def test_a_coarse_duration_is_never_negative() -> None:
    assert round_for_people(timedelta(seconds=-5)) == timedelta(0)
