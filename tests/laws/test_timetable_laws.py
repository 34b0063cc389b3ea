"""Laws of timetables: a window moves or skips beats, and nothing else."""

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.core.errors import InvalidInput
from evenbeat.core.schedules import Schedule
from evenbeat.core.schedules.clockwork.window import Span, Window
from evenbeat.core.timetable import Bounds, Timetable
from tests.laws.schedule_strategies import INSTANTS, STRATEGIES, ZONES

MINUTES = st.times().map(lambda at: at.replace(second=0, microsecond=0))
SPANS = st.builds(
    lambda pair, days: Span(*pair, tuple(days)),
    st.tuples(MINUTES, MINUTES).filter(lambda pair: pair[0] != pair[1]),
    st.sets(st.integers(0, 6), min_size=1),
)
WINDOWS = st.builds(
    lambda spans, zone, outside: Window(tuple(spans), zone, outside),
    st.lists(SPANS, min_size=1, max_size=3),
    ZONES,
    st.sampled_from(["move", "skip"]),
)
RECURRING = st.one_of(
    *(STRATEGIES[kind] for kind in ("hourly", "daily", "weekly")),
    STRATEGIES["cron"].map(lambda cron: cron.seeded("a job")),
    STRATEGIES["every"],
)
often = settings(deadline=None, max_examples=60)


@often
@given(RECURRING, WINDOWS, INSTANTS)
def test_beats_are_the_schedules_own_or_openings(rule: Schedule, window: Window, at: datetime):
    schedule = rule.planned_at(at)
    try:
        table = Timetable(schedule, window=window)
    except InvalidInput:
        return
    instant = at
    for _ in range(5):
        beat = table.next_after(instant)
        if beat is None:
            return
        assert beat > instant
        assert window.is_open(beat)
        is_own = schedule.next_after(beat - timedelta(microseconds=1)) == beat
        assert is_own or (window.outside == "move" and not window.is_open(beat - beat.resolution))
        assert table.next_after(instant + (beat - instant) / 2) == beat
        instant = beat


@often
@given(RECURRING, WINDOWS, INSTANTS)
def test_every_beat_of_the_schedule_is_kept_moved_or_skipped(
    rule: Schedule, window: Window, at: datetime
):
    schedule = rule.planned_at(at)
    beat = schedule.next_after(at)
    try:
        table = Timetable(schedule, window=window)
    except InvalidInput:
        return
    if beat is None:
        return
    following = table.next_after(beat - timedelta(microseconds=1))
    if window.is_open(beat):
        assert following == beat
    elif window.outside == "move" and following is not None:
        assert following == window.next_opening(beat)


@often
@given(RECURRING, st.none() | WINDOWS, st.none() | st.integers(1, 10**6), INSTANTS)
def test_timetables_go_back_and_forth(
    rule: Schedule, window: Window | None, runs: int | None, at: datetime
):
    try:
        table = Timetable(rule, Bounds(starts_at=at, max_runs=runs), window)
    except InvalidInput:
        return
    assert Timetable.from_object(table.to_object()) == table
    assert window is None or Window.parse(window.to_text()) == window
