"""Laws of timetables: a window moves or skips beats, and nothing else."""

from datetime import datetime, time, timedelta

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules import Schedule
from evenbeat.core.time.schedules.base.instants import LAST_INSTANT as LAST
from evenbeat.core.time.schedules.base.window import Window, WindowSpan
from evenbeat.core.time.schedules.cron import Cron
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.timetable import Timetable, TimetableBounds
from tests.core.time.schedule_strategies import FIRST, INSTANTS, STRATEGIES, ZONES

MINUTES = st.times().map(lambda at: at.replace(second=0, microsecond=0))
SPANS = st.builds(
    lambda pair, days: WindowSpan(*pair, tuple(days)),
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


NARROW = st.builds(
    lambda opens, minutes, days: WindowSpan(
        opens, (datetime.combine(FIRST, opens) + timedelta(minutes=minutes)).time(), tuple(days)
    ),
    # Most clocks change then.
    st.builds(time, hour=st.integers(0, 4), minute=st.integers(0, 59)) | MINUTES,
    st.integers(1, 90),
    st.just(range(7)) | st.sets(st.integers(0, 6), min_size=1),
)
SPARSE = (
    st.builds(
        Every,
        # About a day or a week, so that beats pass through a narrow window now and then.
        st.builds(
            lambda days, seconds: timedelta(days=days, seconds=seconds),
            st.sampled_from([1, 7]),
            st.sampled_from([0, -60, 1, 1800]) | st.integers(-7200, 7200),
        ),
        st.timedeltas(timedelta(0), timedelta(days=7)),
    )
    | STRATEGIES["daily"]
    | STRATEGIES["weekly"]
    | st.builds(Cron, st.sampled_from(["30 2 29 2 *", "*/7 1-3 1 * *", "0 2 1 4,10 *"]), zone=ZONES)
)


@settings(deadline=None, max_examples=150)
@given(SPARSE, st.lists(NARROW, min_size=1, max_size=3), ZONES, INSTANTS)
def test_what_falls_inside_is_what_a_walk_over_all_beats_finds(
    rule: Schedule, spans: list[WindowSpan], zone: str, at: datetime
):
    window, end = Window(tuple(spans), zone, "skip"), min(at + timedelta(days=1100), LAST)
    assume(at < end)
    walked, beat = list[datetime](), rule.next_after(at)
    while beat is not None and beat < end:
        if window.is_open(beat):
            walked.append(beat)
        beat = rule.next_after(beat)
    bounds = TimetableBounds(starts_at=at, ends_at=end)
    try:
        table = Timetable(rule, bounds, window)
    except InvalidInput:
        found = list[datetime]()
    else:
        found = list(table.next_beats(at, len(walked) + 1))
    assert found == walked


@often
@given(RECURRING, st.none() | WINDOWS, st.none() | st.integers(1, 10**6), INSTANTS)
def test_timetables_go_back_and_forth(
    rule: Schedule, window: Window | None, runs: int | None, at: datetime
):
    try:
        table = Timetable(rule, TimetableBounds(starts_at=at, max_runs=runs), window)
    except InvalidInput:
        return
    assert Timetable.from_object(table.to_object()) == table
    assert window is None or Window.parse(window.to_text()) == window
