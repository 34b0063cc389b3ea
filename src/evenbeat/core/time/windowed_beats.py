"""Where beats and a window meet: the first beat inside, found without walking all the others.

Between two clock changes a window is the same every week. What an interval of 86 399 seconds and a
window of one minute a day have in common may lie a century ahead, and is computed; what a cron and
a window have in common on no day of the calendar is known without looking at every day. Around a
clock change, where neither holds, beats are walked one by one.
"""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from evenbeat.core.time.schedules.base.instants import LAST_INSTANT, RESOLUTION
from evenbeat.core.time.schedules.base.schedule import Schedule
from evenbeat.core.time.schedules.base.wall_clock import WallClock
from evenbeat.core.time.schedules.base.window import Window
from evenbeat.core.time.schedules.base.zones import FIXED_TIMES, OffsetPeriod, offset_periods_from
from evenbeat.core.time.schedules.every import Every

_NEVER = datetime.max.replace(tzinfo=UTC)
_MONDAY = datetime(2001, 1, 1)  # noqa: DTZ001 - a wall-clock time has no zone
_LAST_WALL = LAST_INSTANT.replace(tzinfo=None) + timedelta(days=2)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1) // RESOLUTION
_WEEK = 7 * _DAY
_NONE = timedelta(0)


def find_first_beat_in_window(
    schedule: Schedule, window: Window, after: datetime, end: datetime
) -> datetime | None:
    """The first beat later than `after` and before the end at which the window is open."""
    if isinstance(schedule, Every):
        return _search(_IntervalBeats(schedule, _week_of(window)), window.zone, after, end)
    if isinstance(schedule, WallClock):
        return _search(_WallClockBeats(schedule, _week_of(window)), window.zone, after, end)
    beat = schedule.next_after(after)
    while beat is not None and beat < end:
        if window.is_open(beat):
            return beat
        beat = schedule.next_after(window.next_opening(beat) - RESOLUTION)
    return None


class _WeekSpans:
    """The spans of a window in the week of its wall clock, in order, apart from each other."""

    def __init__(self, window: Window) -> None:
        spans: list[tuple[int, int]] = []
        for start, end in sorted(_span_positions(window)):
            if spans and start <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        # Each span once, where it starts in this week. One that never ends starts in no week.
        is_always_open = any(end - start >= _WEEK for start, end in spans)
        here = ((start, end - start) for start, end in spans if 0 <= start < _WEEK)
        self.spans = ((0, _WEEK),) if is_always_open else tuple(here)
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def is_open(self, wall: datetime) -> bool:
        place = _microseconds_into_week(wall)
        return place < self._ends[bisect_right(self._starts, place) - 1]

    def next_opening(self, wall: datetime) -> datetime:
        """The first strictly later, for a time outside."""
        place = _microseconds_into_week(wall)
        return wall + (self._starts[bisect_right(self._starts, place)] - place) * RESOLUTION

    def is_open_in(self, stretch: OffsetPeriod, instant: datetime) -> bool:
        return self.is_open(self._wall_in(stretch, instant))

    def next_opening_in(self, stretch: OffsetPeriod, instant: datetime) -> datetime:
        return stretch.instant_at(self.next_opening(self._wall_in(stretch, instant)))

    def _wall_in(self, stretch: OffsetPeriod, instant: datetime) -> datetime:
        # While an hour is repeated, a window stays as it was when the clock was set back.
        return max(stretch.wall_at(instant), stretch.first_wall(FIXED_TIMES) - RESOLUTION)


@lru_cache(maxsize=512)
def _week_of(window: Window) -> _WeekSpans:
    return _WeekSpans(window)


def _span_positions(window: Window) -> Iterator[tuple[int, int]]:
    for span in window.spans:
        opens, closes = ((wall - _MONDAY) // RESOLUTION for wall in span.on(_MONDAY))
        for day in span.days:
            # Of the week before for what is open over Sunday night, of the next for what follows.
            for week in (-_WEEK, 0, _WEEK):
                yield week + day * _DAY + opens, week + day * _DAY + closes


class _BeatSource(Protocol):
    """What is asked of a schedule here."""

    week: _WeekSpans

    @property
    def schedule(self) -> Schedule: ...

    @property
    def zone(self) -> str | None:
        """Where the beats are times on a wall clock."""
        ...

    def first(self, low: datetime, offset: timedelta, window_offset: timedelta) -> datetime:
        """The first beat not earlier than `low` inside the week, were these offsets for ever."""
        ...

    def may_beat(self, begin: datetime, stretch: OffsetPeriod, reach: timedelta) -> bool:
        """Whether a beat may come within the reach of a clock change, in the beats' own stretch."""
        ...


def _search(
    beats: _BeatSource, window_zone: str, after: datetime, end: datetime
) -> datetime | None:
    # The first beat inside under each pair of offsets stays the first until it has passed.
    known: dict[tuple[timedelta, timedelta], datetime] = {}
    for ours, theirs in _paired_periods(after, beats.zone or window_zone, window_zone):
        begin = max(ours.starts_at, theirs.starts_at)
        if begin >= end:
            return None
        stop = min(ours.ends_at, theirs.ends_at, end)
        low = max(begin, after + RESOLUTION)
        reach = max(_change_at(begin, ours), _change_at(begin, theirs))
        until = min(begin + reach, stop)
        if reach and _may_clock_change_add_beat(beats, ours, theirs, reach):
            beat = _walk(beats, theirs, low, until)
            if beat is not None:
                return beat
        offsets = (ours.offset, theirs.offset)
        while low < stop:
            beat = known.get(offsets)
            if beat is None or beat < low:
                beat = known[offsets] = beats.first(low, *offsets)
            if beat >= stop:
                break
            # A repeated hour may have no beats, or find the window closed.
            is_real = beats.schedule.next_after(beat - RESOLUTION) == beat
            if not is_real or not beats.week.is_open_in(theirs, beat):
                beat = _walk(beats, theirs, beat, until)
            if beat is not None:
                return beat
            low = max(until, low + RESOLUTION)
    return None


def _walk(
    beats: _BeatSource, theirs: OffsetPeriod, low: datetime, end: datetime
) -> datetime | None:
    """The first beat inside from `low` to before the end, from beat to beat, in one stretch."""
    beat = beats.schedule.next_after(low - RESOLUTION)
    while beat is not None and beat < end:
        if beats.week.is_open_in(theirs, beat):
            return beat
        opening = beats.week.next_opening_in(theirs, beat)
        beat = beats.schedule.next_after(opening - RESOLUTION)
    return None


def _paired_periods(
    after: datetime, zone: str, other_zone: str
) -> Iterator[tuple[OffsetPeriod, OffsetPeriod]]:
    """Stretches of two zones side by side, each pair as long as both last."""
    ours, theirs = offset_periods_from(after, zone), offset_periods_from(after, other_zone)
    mine, other = next(ours, None), next(theirs, None)
    while mine is not None and other is not None:
        yield mine, other
        ends_at = min(mine.ends_at, other.ends_at)
        mine = next(ours, None) if mine.ends_at == ends_at else mine
        other = next(theirs, None) if other.ends_at == ends_at else other


def _change_at(instant: datetime, stretch: OffsetPeriod) -> timedelta:
    return abs(stretch.offset - stretch.before) if stretch.starts_at == instant else _NONE


def _may_clock_change_add_beat(
    beats: _BeatSource, ours: OffsetPeriod, theirs: OffsetPeriod, reach: timedelta
) -> bool:
    """Whether a clock change may bring a beat inside that is not there by the week's pattern.

    That is a beat leapt over, which comes right after the leap, or a beat in a repeated hour
    through which a window stays open, because it was open before.
    """
    begin = max(ours.starts_at, theirs.starts_at)
    before = theirs.before if theirs.starts_at == begin else theirs.offset
    is_open = beats.week.is_open(_wall(begin - RESOLUTION, before)) or beats.week.is_open(
        _wall(begin, theirs.offset)
    )
    return is_open and beats.may_beat(begin, ours, reach)


class _IntervalBeats:
    """Beats of an interval."""

    zone = None

    def __init__(self, schedule: Every, week: _WeekSpans) -> None:
        self.schedule, self.week = schedule, week

    def first(self, low: datetime, offset: timedelta, window_offset: timedelta) -> datetime:
        del offset
        beat, interval = self.schedule.next_after(low - RESOLUTION), self.schedule.interval
        if beat is None:
            return _NEVER
        place = _microseconds_into_week(_wall(beat, window_offset))
        counts = [
            _steps_into(place - start, length, interval // RESOLUTION)
            for start, length in self.week.spans
        ]
        count = min((count for count in counts if count is not None), default=None)
        if count is None or count > (LAST_INSTANT - beat) // interval:
            return _NEVER
        return beat + count * interval

    def may_beat(self, begin: datetime, stretch: OffsetPeriod, reach: timedelta) -> bool:
        del begin, stretch, reach
        return True


class _WallClockBeats:
    """Beats of a pattern on a wall clock."""

    def __init__(self, schedule: WallClock, week: _WeekSpans) -> None:
        self.schedule, self.week = schedule, week
        self.zone, self._pattern = schedule.zone, schedule.pattern()

    def first(self, low: datetime, offset: timedelta, window_offset: timedelta) -> datetime:
        ahead = window_offset - offset
        spans = (
            ((start * RESOLUTION - ahead) // _SECOND, length * RESOLUTION // _SECOND)
            for start, length in self.week.spans
        )
        if not self._pattern.falls_into(spans):
            return _NEVER
        wall = self._pattern.next_wall(_wall(low - RESOLUTION, offset))
        while wall is not None and wall < _LAST_WALL:
            if self.week.is_open(wall + ahead):
                return (wall - offset).replace(tzinfo=UTC)
            opening = self.week.next_opening(wall + ahead) - ahead
            wall = self._pattern.next_wall(opening - RESOLUTION)
        return _NEVER

    def may_beat(self, begin: datetime, stretch: OffsetPeriod, reach: timedelta) -> bool:
        if stretch.starts_at != begin:
            # Only the window's clock changes: the beats go on by theirs.
            return self._pattern.has_time(_wall(begin, stretch.offset), reach)
        first = min(stretch.before, stretch.offset)
        leap = abs(stretch.offset - stretch.before)
        return self._pattern.has_time(_wall(begin, first), leap + reach)


def _wall(instant: datetime, offset: timedelta) -> datetime:
    return (instant + offset).replace(tzinfo=None)


def _microseconds_into_week(wall: datetime) -> int:
    """Where in the week a time is, in microseconds."""
    return (wall - _MONDAY) // RESOLUTION % _WEEK


def _steps_into(place: int, length: int, interval: int) -> int | None:
    """How many intervals lead from a place in the week into its first `length`, None if none do."""
    place %= _WEEK
    if place < length:
        return 0
    return _first_multiple(interval % _WEEK, _WEEK, _WEEK - place, _WEEK - place + length - 1)


def _first_multiple(step: int, modulus: int, low: int, high: int) -> int | None:
    """The smallest k for which k·step, modulo the modulus, is from low to high (both below it).

    As in Euclid's algorithm, each turn makes the numbers smaller: some twenty turns for a week.
    """
    if low == 0:
        return 0
    if step == 0:
        return None
    if 2 * step > modulus:
        # Backwards by what is missing to the modulus.
        return _first_multiple(modulus - step, modulus, modulus - high, modulus - low)
    count = -(-low // step)
    if count * step <= high:
        return count
    # No multiple below the modulus hits: how often must it be passed?
    rounds = _first_multiple(modulus % step, step, -high % step, -low % step)
    return None if rounds is None else -(-(low + modulus * rounds) // step)
