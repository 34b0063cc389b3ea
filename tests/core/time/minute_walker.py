"""Cron by brute force: every minute of a few days is looked at, as cron's own daemon does.

It shares nothing with the code it checks: fields are read anew, and clock changes are met by
walking, not by calculation. The daemon's rule: it keeps the latest wall-clock minute it has served.
When the clock leaps, the minutes leapt over are served at once; when the clock is set back, minutes
served before are not served again. Expressions whose hour or minute is a star are exempt.
"""

from calendar import monthrange
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


@dataclass
class Line:
    minutes: set[int]
    hours: set[int]
    days: list[str]
    months: set[int]
    weekdays: list[str]
    is_wild: bool
    is_both: bool

    def matches(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and self.matches_day(wall)
        )

    def matches_day(self, wall: datetime) -> bool:
        last = monthrange(wall.year, wall.month)[1]
        day = any(
            wall.day == last if term == "l" else wall.day in numbers(term, 1, 31, [])
            for term in self.days
        )
        weekday = any(matches_weekday(term, wall, last) for term in self.weekdays)
        return (day and weekday) if self.is_both else (day or weekday)


def matches_weekday(term: str, wall: datetime, last: int) -> bool:
    today = wall.isoweekday() % 7
    if term.endswith("l") and term != "l":
        return today == int(term[:-1]) % 7 and wall.day > last - 7
    if "#" in term:
        name, _, nth = term.partition("#")
        (number,) = numbers(name, 0, 7, WEEKDAYS)
        return today == number % 7 and (wall.day - 1) // 7 + 1 == int(nth)
    return today in {number % 7 for number in numbers(term, 0, 7, WEEKDAYS)}


def numbers(term: str, lowest: int, highest: int, names: list[str]) -> set[int]:
    body, _, step = term.partition("/")
    low, _, high = body.partition("-")
    first = lowest if low == "*" else number(low, lowest, names)
    is_open = low == "*" or bool(step)
    end = number(high, lowest, names) if high else highest if is_open else first
    return set(range(first, end + 1, int(step or 1)))


def number(text: str, lowest: int, names: list[str]) -> int:
    return names.index(text) + lowest if text in names else int(text)


def read(expression: str) -> Line:
    minute, hour, day, month, weekday = expression.lower().split()
    union = lambda text, low, high, names: {  # noqa: E731
        value for term in text.split(",") for value in numbers(term, low, high, names)
    }
    return Line(
        minutes=union(minute, 0, 59, []),
        hours=union(hour, 0, 23, []),
        days=day.split(","),
        months=union(month, 1, 12, MONTHS),
        weekdays=weekday.split(","),
        is_wild=minute[0] == "*" or hour[0] == "*",
        is_both=day[0] == "*" or weekday[0] == "*",
    )


@cache
def minutes_of(zone: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    walk: list[tuple[datetime, datetime]] = []
    zone_info = ZoneInfo(zone)
    while start <= end:
        walk.append((start, start.astimezone(zone_info).replace(tzinfo=None)))
        start += MINUTE
    return walk


@cache
def clock_changes(zone: str, start: datetime, end: datetime) -> list[datetime]:
    walk = minutes_of(zone, start, end)
    return [later[0] for sooner, later in pairwise(walk) if later[1] - sooner[1] != MINUTE]


def beats(
    expression: str, zone: str, start: datetime, end: datetime, dst: tuple[str, str] | None = None
) -> list[datetime]:
    """Every beat after the start, up to the end; both are whole minutes far from a clock change."""
    line = read(expression)
    gap, overlap = dst or (("skip", "both") if line.is_wild else ("after", "once"))
    (_, served), *walk = minutes_of(zone, start, end)
    found: list[datetime] = []
    for instant, wall in walk:
        if wall <= served:
            is_beat = overlap == "both" and line.matches(wall)
        else:
            is_beat = line.matches(wall)
            while gap == "after" and not is_beat and (served := served + MINUTE) < wall:
                is_beat = line.matches(served)
            served = wall
        if is_beat:
            found.append(instant)
    return found
