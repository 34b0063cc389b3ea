"""When schedules beat: the documents' examples, clock changes, spread, and periods."""

from datetime import UTC, datetime, timedelta

import pytest

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules import Schedule, parse_schedule
from evenbeat.core.time.schedules.cron import Cron
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.schedules.once import Once

NOON = datetime(2026, 11, 4, 12, tzinfo=UTC)  # a Wednesday


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def beats(text: str, after: str, count: int) -> list[datetime]:
    schedule: Schedule = parse_schedule(text)
    found: list[datetime] = []
    instant: datetime | None = at(after)
    for _ in range(count):
        assert instant is not None
        instant = schedule.next_after(instant)
        assert instant is not None
        found.append(instant)
    return found


@pytest.mark.parametrize(
    ("expression", "first", "second"),
    [
        ("0 8 * * *", "2026-11-05T08:00Z", "2026-11-06T08:00Z"),
        ("*/15 * * * *", "2026-11-04T12:15Z", "2026-11-04T12:30Z"),
        ("0 0 * * 0", "2026-11-08T00:00Z", "2026-11-15T00:00Z"),
        ("0 9 1 * *", "2026-12-01T09:00Z", "2027-01-01T09:00Z"),
        ("0 8 * * 1-5", "2026-11-05T08:00Z", "2026-11-06T08:00Z"),
    ],
)
def test_the_usual_crons_beat_as_documented(expression: str, first: str, second: str):
    assert beats(expression, "2026-11-04T12:00Z", 2) == [at(first), at(second)]


@pytest.mark.parametrize(
    ("text", "after", "beat"),
    [
        ("every 30m phase=0s", "2026-11-04T12:00Z", "2026-11-04T12:30Z"),
        ("hourly :30", "2026-11-04T12:29:59Z", "2026-11-04T12:30Z"),
        ("hourly :30", "2026-11-04T12:30:00Z", "2026-11-04T13:30Z"),
        ("hourly :30", "2026-11-04T23:45:00Z", "2026-11-05T00:30Z"),
        ("daily 06:00", "2026-11-04T05:59Z", "2026-11-04T06:00Z"),
        ("daily 06:00", "2026-11-04T06:00Z", "2026-11-05T06:00Z"),
        ("sun 02:00", "2026-11-04T12:00Z", "2026-11-08T02:00Z"),
        ("sun 02:00", "2026-11-08T01:59Z", "2026-11-08T02:00Z"),
        ("sun 02:00", "2026-11-08T02:00Z", "2026-11-15T02:00Z"),
    ],
)
def test_the_next_beat_counts_today_if_it_is_still_ahead(text: str, after: str, beat: str):
    assert parse_schedule(text).next_after(at(after)) == at(beat)


@pytest.mark.parametrize("rule", ["30 2 * * *", "0 30 2 * * *", "daily 02:30"])
def test_a_time_in_the_gap_beats_right_after_it(rule: str):
    assert beats(f"{rule} Europe/Berlin", "2026-03-28T12:00Z", 2) == [
        at("2026-03-29T03:00+02:00"),
        at("2026-03-30T02:30+02:00"),
    ]


@pytest.mark.parametrize("rule", ["30 2 * * *", "0 30 2 * * *", "daily 02:30", "sun 02:30"])
def test_a_time_in_the_overlap_beats_once(rule: str):
    first, second = beats(f"{rule} Europe/Berlin", "2026-10-24T12:00Z", 2)
    assert first == at("2026-10-25T02:30+02:00")
    assert second - first >= timedelta(days=1)


@pytest.mark.parametrize("rule", ["30 * * * *", "hourly :30"])
def test_hourly_beats_follow_elapsed_time_over_clock_changes(rule: str):
    for start in ("2026-10-24T22:00Z", "2026-03-28T22:00Z"):
        found = beats(f"{rule} Europe/Berlin", start, 6)
        assert [beat.minute for beat in found] == [30] * 6
        assert found[-1] - found[0] == timedelta(hours=5)


def test_a_gap_can_be_skipped_and_an_overlap_beat_twice():
    rule = "daily 02:30 Europe/Berlin dst=skip/both"
    assert beats(rule, "2026-03-28T12:00Z", 1) == [at("2026-03-30T02:30+02:00")]
    assert beats(rule, "2026-10-24T12:00Z", 2) == [
        at("2026-10-25T02:30+02:00"),
        at("2026-10-25T02:30+01:00"),
    ]


def test_within_the_repeated_hour_the_next_beat_is_not_in_the_past():
    # cronsim by itself answers 02:30 summer time here, three quarters of an hour ago.
    in_second_pass = "2026-10-25T02:15+01:00"
    assert beats("30 2 * * * Europe/Berlin", in_second_pass, 1) == [at("2026-10-26T02:30+01:00")]


def test_a_clock_change_of_half_an_hour_loses_no_beat():
    # cronsim by itself steps whole hours and misses 02:00 and 02:15 here.
    assert beats("*/15 2 * * * Australia/Lord_Howe", "2026-04-04T12:00Z", 2) == [
        at("2026-04-05T02:00+10:30"),
        at("2026-04-05T02:15+10:30"),
    ]


def test_a_day_that_a_zone_leaves_out_is_made_up_when_the_next_begins():
    # Debian takes a change of three hours or more for a correction and makes nothing up; here
    # the rule "right after" holds for every gap, so that no daily job misses a day.
    assert beats("0 6 * * * Pacific/Apia", "2011-12-29T12:00-10:00", 2) == [
        at("2011-12-31T00:00+14:00"),
        at("2011-12-31T06:00+14:00"),
    ]


def test_leap_days_come_and_2100_has_none():
    assert beats("0 0 29 2 *", "2095-01-01T00:00Z", 2) == [
        at("2096-02-29T00:00Z"),
        at("2104-02-29T00:00Z"),
    ]


def test_a_step_within_one_value_is_that_value():
    # cronsim by itself reads 5-5/10 as 5/10.
    assert beats("5-5/10 * * * *", "2026-11-04T12:00Z", 2) == [
        at("2026-11-04T12:05Z"),
        at("2026-11-04T13:05Z"),
    ]


def test_last_days_and_nth_weekdays_are_known():
    assert beats("0 0 L * *", "2026-02-01T00:00Z", 1) == [at("2026-02-28T00:00Z")]
    assert beats("0 0 * * MON#2", "2026-11-04T00:00Z", 1) == [at("2026-11-09T00:00Z")]
    assert beats("0 0 * * 5L", "2026-11-04T00:00Z", 1) == [at("2026-11-27T00:00Z")]


def test_a_day_of_the_month_and_a_weekday_are_alternatives():
    assert beats("0 0 13 * FRI", "2026-11-05T00:00Z", 3) == [
        at("2026-11-06T00:00Z"),
        at("2026-11-13T00:00Z"),
        at("2026-11-20T00:00Z"),
    ]


def test_an_interval_jumps_over_any_downtime_in_step():
    rule = Every(timedelta(seconds=7), timedelta(seconds=3))
    beat = rule.next_after(NOON + timedelta(days=3000))
    assert beat is not None
    assert (beat.timestamp() - 3) % 7 == 0


def test_an_interval_anchored_now_beats_one_interval_later():
    rule = Every(timedelta(hours=5)).anchored_at(NOON + timedelta(microseconds=123))
    assert rule.next_after(NOON + timedelta(seconds=1)) == NOON + timedelta(
        hours=5, microseconds=123
    )


def test_an_interval_without_a_phase_has_no_beats_yet():
    rule = Every(timedelta(hours=5))
    assert not rule.is_definite
    with pytest.raises(InvalidInput, match=r"schedule\.phase"):
        rule.next_after(NOON)


def test_an_interval_that_has_its_phase_keeps_it_when_planned():
    rule = Every(timedelta(hours=5), timedelta(minutes=1))
    assert rule.planned_at(NOON) is rule


def test_now_is_planned_as_once():
    assert parse_schedule("now").planned_at(NOON) == Once(NOON)
    with pytest.raises(InvalidInput, match=r"schedule\.now"):
        parse_schedule("now").next_after(NOON)


def test_once_beats_once():
    assert Once(NOON).next_after(NOON - timedelta(days=400)) == NOON
    assert Once(NOON).next_after(NOON) is None


def test_beats_lie_between_2000_and_2200():
    rule = parse_schedule("daily 06:00 Europe/Berlin")
    assert rule.next_after(datetime.min.replace(tzinfo=UTC)) == at("2000-01-01T06:00+01:00")
    assert rule.next_after(at("2199-12-31T12:00Z")) is None
    assert rule.next_after(datetime.max.replace(tzinfo=UTC)) is None


def test_an_instant_without_a_zone_is_a_mistake():
    with pytest.raises(ValueError, match="time zone"):
        parse_schedule("daily 06:00").next_after(NOON.replace(tzinfo=None))


def test_h_is_chosen_by_the_name_and_stays():
    rule = parse_schedule("H H(0-7) * * *").seeded("nightly-report")
    # Fixed for ever: were these to change, every job spread by its name would move.
    assert rule.next_after(NOON) == at("2026-11-05T04:44Z")
    assert rule.seeded("another") == rule
    assert rule.to_text() == "H H(0-7) * * * seed=nightly-report"


def test_h_spreads_names_over_the_whole_field():
    minutes = {
        beat.minute
        for number in range(400)
        if (beat := Cron("H * * * *").seeded(f"job {number}").next_after(NOON))
    }
    assert len(minutes) == 60


def test_h_with_a_step_keeps_the_step_and_with_a_range_the_range():
    for number in range(50):
        name = f"job {number}"
        quarter = Cron("H/15 * * * *").seeded(name).next_after(NOON)
        tenth = Cron("H(0-29)/10 * * * *").seeded(name).pattern().explain()
        assert quarter is not None
        assert quarter - NOON <= timedelta(minutes=15)
        day = Cron("0 0 H * *").seeded(name).next_after(NOON)
        assert day is not None
        assert day.day <= 28
        assert all(int(word.strip(",")) < 30 for word in tenth.split() if word.strip(",").isdigit())


def test_h_needs_a_name():
    with pytest.raises(InvalidInput, match="needs a name"):
        parse_schedule("H * * * *").next_after(NOON)


def test_a_name_that_is_no_word_still_seeds_and_goes_back_and_forth():
    rule = parse_schedule("H * * * *").seeded("Täglicher Bericht \N{SNOWMAN}" * 20)
    assert rule.is_definite
    assert parse_schedule(rule.to_text()) == rule


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("every 30m", timedelta(minutes=30)),
        ("hourly", timedelta(hours=1)),
        ("daily 06:00", timedelta(days=1)),
        ("sun 02:00", timedelta(weeks=1)),
        ("*/15 * * * *", timedelta(minutes=15)),
        ("0 0 * * *", timedelta(days=1)),
        ("0 9-16 * * *", timedelta(hours=3)),
        ("H/15 * * * *", timedelta(minutes=15)),
        ("0 0 * * SUN", timedelta(weeks=1)),
        ("0 8 * * MON-FRI", timedelta(days=7 / 5)),
        ("0 0 1 * *", timedelta(days=365.25 / 12)),
        ("0 0 1 1 *", timedelta(days=365.25)),
        ("0 0 29 2 *", timedelta(days=1461)),
    ],
)
def test_the_average_distance_of_beats_is_known(text: str, period: timedelta):
    assert parse_schedule(text).effective_period(NOON) == period


def test_one_beat_has_no_period():
    assert parse_schedule("now").effective_period(NOON) is None
    assert Once(NOON).effective_period(NOON) is None
