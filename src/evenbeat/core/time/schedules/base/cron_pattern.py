"""Patterns of wall-clock times, as cron writes them; the only module that knows cronsim.

cronsim is given wall-clock times without a zone: clock changes are decided in one place, for
every kind of schedule, and it is not here.
"""

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from datetime import date, datetime, timedelta
from functools import lru_cache

from cronsim import CronSim, CronSimError

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.instants import RESOLUTION
from evenbeat.core.time.schedules.base.zones import (
    ELAPSED_TIME,
    FIXED_TIMES,
    Dst,
    offset_periods_from,
)

FIELD = "schedule.cron"
# Crontabs say */60 and mean "once an hour"; beyond three digits it is a slip.
LONGEST_STEP = 999

_SECOND = timedelta(seconds=1)
_DAY = 86_400

_START = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall-clock time has no zone

# After 28 years every day of the year has met every day of the week.
_CYCLE = range(2000, 2028)
_LENGTH_OF_CYCLE = datetime(_CYCLE.stop, 1, 1) - datetime(_CYCLE.start, 1, 1)  # noqa: DTZ001

_HELP = {
    "Wrong number of fields": "write 5 fields (minute hour day month weekday), or 6 with seconds"
    " first",
    "Bad second": "bad second, the first of six fields: 0-59",
    "Bad minute": "bad minute: 0-59, *, lists, ranges, steps such as */15",
    "Bad hour": "bad hour: 0-23, *, lists, ranges, steps such as */6",
    "Bad day-of-month": "bad day of the month: 1-31, L or LW, and one that the months have",
    "Bad month": "bad month: 1-12 or JAN-DEC",
    "Bad day-of-week": "bad day of the week: 0-7 (0 and 7 are Sunday) or SUN-SAT, MON#2, 5L;"
    " ranges run from the smaller to the larger",
}


class CronPattern:
    """A set of wall-clock times, whole seconds, without an end."""

    __slots__ = ("_average", "_minutes", "_seconds", "_sim", "dst")

    def __init__(self, expression: str) -> None:
        self._sim = _parse(expression)
        self._average: timedelta | None = None
        minute, hour = self._sim.parts[1], self._sim.parts[2]
        is_wildcard = minute.startswith("*") or hour.startswith("*")
        self.dst = ELAPSED_TIME if is_wildcard else FIXED_TIMES
        self._minutes = sorted(60 * h + m for h in self._sim.hours for m in self._sim.minutes)
        self._seconds = sorted(self._sim.seconds)
        if not self._has_day(range(7)):
            raise InvalidInput(FIELD, f"{expression!r} names a day that never comes")

    def next_wall(self, wall: datetime) -> datetime | None:
        """The smallest time strictly later, None if there is none within 50 years."""
        sim = copy(self._sim)
        sim.dt = wall.replace(microsecond=0)
        return next(sim, None)

    def average_distance(self) -> timedelta:
        """How far apart the times are on average over the years, as if no clock changed."""
        # Kept, because ten thousand days are counted for it: some 10 ms.
        if self._average is None:
            days = sum(map(self._sim.match_day, self._days_of_cycle()))
            times = len(self._sim.seconds) * len(self._sim.minutes) * len(self._sim.hours)
            self._average = _LENGTH_OF_CYCLE / (days * times)
        return self._average

    def falls_into(self, spans: Iterable[tuple[int, int]]) -> bool:
        """Whether any time ever falls into these spans of the week: seconds from Monday, length."""
        weekdays = {
            day % 7
            for start, length in spans
            for day in range(start // _DAY, (start + length - 1) // _DAY + 1)
            if self._has_second(max(start - day * _DAY, 0), start + length - day * _DAY)
        }
        return self._has_day(weekdays)

    def has_time(self, wall: datetime, length: timedelta) -> bool:
        """Whether a time of day of the pattern comes within the length, on whatever day."""
        start = wall.hour * 3600 + wall.minute * 60 + wall.second
        end = start + length // _SECOND + 1
        return self._has_second(start, end) or self._has_second(0, end - _DAY)

    def _has_second(self, start: int, end: int) -> bool:
        """Whether a time of day is not earlier than the start and before the end, in seconds."""
        minute, second = divmod(start, 60)
        place = bisect_left(self._minutes, minute)
        if place < len(self._minutes) and self._minutes[place] == minute:
            later = bisect_left(self._seconds, second)
            if later < len(self._seconds):
                return minute * 60 + self._seconds[later] < end
            place += 1
        return place < len(self._minutes) and self._minutes[place] * 60 + self._seconds[0] < end

    def _has_day(self, weekdays: Collection[int]) -> bool:
        """Whether a day of the pattern is ever one of these days of the week."""
        return any(
            day.weekday() in weekdays and self._sim.match_day(day)
            for month in self._sim.months
            for day in _kinds_of_days(month)
        )

    def explain(self) -> str:
        return self._sim.explain()

    def _days_of_cycle(self) -> Iterator[date]:
        for month in self._sim.months:
            yield from _days_of(month)


@lru_cache(maxsize=12)
def _days_of(month: int) -> tuple[date, ...]:
    return tuple(
        date(year, month, day + 1) for year in _CYCLE for day in range(monthrange(year, month)[1])
    )


@lru_cache(maxsize=12)
def _kinds_of_days(month: int) -> tuple[date, ...]:
    """The days of every form the month can have: by its length, and the weekday it begins with."""
    years = {monthrange(year, month): year for year in _CYCLE}
    return tuple(
        date(year, month, day + 1) for (_, length), year in years.items() for day in range(length)
    )


@lru_cache(maxsize=2048)
def parse_pattern(expression: str) -> CronPattern:
    return CronPattern(expression)


def next_beat(instant: datetime, pattern: CronPattern, zone: str, dst: Dst) -> datetime | None:
    """The first instant strictly later at which the clocks of the zone show a time of the pattern.

    The search stops at the last instant that can be planned.
    """
    searched = found = None
    for stretch in offset_periods_from(instant, zone):
        after = stretch.first_wall(dst) - RESOLUTION
        if stretch.starts_at <= instant:
            after = max(after, stretch.wall_at(instant))
        # A 29 February passes a dozen stretches before it comes: search for it once.
        if searched is None or found is None or not searched <= after < found:
            searched, found = after, pattern.next_wall(after)
        if found is None:
            return None
        if found < stretch.end_wall():
            return stretch.instant_at(found)
    return None


def _refuse_long_steps(expression: str) -> None:
    """cronsim takes a step of any length for "once"."""
    for field in expression.split():
        for part in field.split(","):
            step = part.partition("/")[2]
            if step.isdigit() and int(step[:4]) > LONGEST_STEP:
                raise InvalidInput(FIELD, f"{expression!r}: the step {step[:20]} is too long")


def _parse(expression: str) -> CronSim:
    _refuse_long_steps(expression)
    try:
        return CronSim(_without_steps_in_one_value(expression), _START)
    except CronSimError as error:
        message = _HELP.get(str(error), str(error))
        raise InvalidInput(FIELD, f"{expression!r}: {message}") from None


def _without_steps_in_one_value(expression: str) -> str:
    # cronsim takes the range out of 5-5/10 and reads 5/10, which has many values.
    if "/" not in expression or "-" not in expression:
        return expression
    return " ".join(",".join(map(_simplest, field.split(","))) for field in expression.split())


def _simplest(term: str) -> str:
    body, slash, step = term.partition("/")
    low, dash, high = body.partition("-")
    is_one_value = slash and dash and low.lstrip("0") == high.lstrip("0")
    return low if is_one_value and step.strip("0").isdigit() else term
