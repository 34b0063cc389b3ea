"""Laws that schedules of every kind keep; a new kind is held to them by being there."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules import KINDS, Schedule, parse_schedule, parse_schedule_object
from evenbeat.core.time.schedules.every import Every
from tests.core.time.schedule_strategies import INSTANTS, STRATEGIES

TICK = timedelta(microseconds=1)
GAPS = st.timedeltas(timedelta(0), timedelta(days=400))

every_kind = pytest.mark.parametrize("kind", sorted(KINDS))
often = settings(deadline=None, max_examples=60)
very_often = settings(deadline=None, max_examples=300)


def drawn(data: st.DataObject, kind: str, planned_at: datetime) -> Schedule:
    """A schedule of the kind whose beats are known."""
    return data.draw(STRATEGIES[kind]).seeded("a job").planned_at(planned_at)


def names_a_field_of_a_schedule(refusal: InvalidInput) -> bool:
    return all(error.field.startswith("schedule") and error.message for error in refusal.errors)


def test_every_kind_can_be_drawn():
    assert STRATEGIES.keys() == KINDS.keys()


@every_kind
@often
@given(st.data(), INSTANTS)
def test_the_next_beat_is_strictly_later_and_in_utc(kind: str, data: st.DataObject, at: datetime):
    schedule = drawn(data, kind, at)
    instant = at
    for _ in range(5):
        beat = schedule.next_after(instant)
        if beat is None:
            return
        assert beat > instant
        assert beat.tzinfo is UTC
        instant = beat


@every_kind
@often
@given(st.data(), INSTANTS, GAPS)
def test_a_later_instant_never_has_an_earlier_next_beat(
    kind: str, data: st.DataObject, at: datetime, gap: timedelta
):
    schedule = drawn(data, kind, at)
    sooner, later = schedule.next_after(at), schedule.next_after(at + gap)
    assert later is None or (sooner is not None and sooner <= later)


@every_kind
@often
@given(st.data(), INSTANTS)
def test_no_beat_is_passed_over(kind: str, data: st.DataObject, at: datetime):
    schedule = drawn(data, kind, at)
    beat = schedule.next_after(at)
    if beat is not None:
        assert schedule.next_after(beat - TICK) == beat
        assert schedule.next_after(at + (beat - at) / 2) == beat


@every_kind
@often
@given(st.data(), INSTANTS, st.timedeltas(timedelta(0), timedelta(days=3)))
def test_downtime_does_not_change_the_beats(
    kind: str, data: st.DataObject, at: datetime, down: timedelta
):
    schedule = drawn(data, kind, at)
    end, beat = at + down, schedule.next_after(at)
    for _ in range(300):
        if beat is None or beat > end:
            assert schedule.next_after(end) == beat
            return
        beat = schedule.next_after(beat)


@often
@given(STRATEGIES["every"], INSTANTS)
def test_an_interval_keeps_its_phase_for_ever(schedule: Schedule, at: datetime):
    placed = schedule.planned_at(at)
    assert isinstance(placed, Every)
    assert placed.phase is not None
    beat = placed.next_after(at)
    if beat is not None:
        elapsed = beat - datetime(1970, 1, 1, tzinfo=UTC) - placed.phase
        assert elapsed % placed.interval == timedelta(0)
        assert beat - at <= placed.interval


@every_kind
@often
@given(st.data())
def test_texts_and_objects_lead_back_to_the_same_schedule(kind: str, data: st.DataObject):
    schedule = data.draw(STRATEGIES[kind])
    assert parse_schedule(schedule.to_text()) == schedule
    assert parse_schedule_object(schedule.to_object()) == schedule
    assert parse_schedule_object(schedule.to_text()) == schedule


@every_kind
@often
@given(st.data(), INSTANTS)
def test_every_schedule_can_be_described(kind: str, data: st.DataObject, at: datetime):
    schedule = data.draw(STRATEGIES[kind])
    assert schedule.describe().strip()
    period = schedule.effective_period(at)
    assert (period is not None) == schedule.is_recurring
    assert period is None or period >= timedelta(seconds=1)


VALUES = [
    *("every", "hourly", "daily", "weekly", "cron", "once", "now", "@daily", "@reboot", "sun"),
    *("30m", "PT30M", "06:00", ":15", "2026-01-01T00:00Z", "99999999999", "Europe/Berlin", "UTC"),
    *("*", "*/5", "H", "H/7", "0", "8", "MON#5", "5L", "LW", "-", ",", "/", "#", "(", ")", "\0"),
    *("zone=", "dst=skip/both", "phase=1s", "seed=a", "CRON_TZ=UTC", "\N{FULLWIDTH DIGIT ONE}"),
]
WORDS = st.sampled_from(VALUES)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | WORDS


@very_often
@given(st.text(max_size=300) | st.lists(WORDS, max_size=9).map(" ".join))
def test_any_text_is_a_schedule_or_is_refused_by_name(text: str):
    try:
        schedule = parse_schedule(text)
    except InvalidInput as refusal:
        assert names_a_field_of_a_schedule(refusal)  # noqa: PT017
    else:
        assert parse_schedule(schedule.to_text()) == schedule


@very_often
@given(
    st.dictionaries(
        st.sampled_from([*KINDS, "zone", "dst", "phase", "seed"]) | st.text(max_size=5),
        SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(WORDS, SCALARS, max_size=2),
        max_size=3,
    )
    | SCALARS
)
def test_any_json_is_a_schedule_or_is_refused_by_name(value: object):
    try:
        schedule = parse_schedule_object(value)
    except InvalidInput as refusal:
        assert names_a_field_of_a_schedule(refusal)  # noqa: PT017
    else:
        assert parse_schedule_object(schedule.to_object()) == schedule
