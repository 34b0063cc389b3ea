"""Windows: the times of the week at which a job may run.

    22:00-06:00 Europe/Berlin
    mon-fri 09:00-17:00, sat,sun 10:00-12:00 outside=skip

The days are those on which a span opens. A span ends before the minute it names, the next day if
that is not later. Opening and closing times that a clock change leaves out come right after it,
repeated ones count the first time.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Any, Self, cast

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import check_plain_text
from evenbeat.core.time.schedules.base.times_of_day import DAYS, check_time, read_day, read_time
from evenbeat.core.time.schedules.base.zones import check_zone, wall_to_instant

FIELD = "window"
MAX_SPANS = 14
OUTSIDE = ("move", "skip")

_EN_DASH = "\N{EN DASH}"
_MIDNIGHT = time()
_DAY = timedelta(days=1)
_BLOCK = 28
# A clock that leaps over the only span of a week leaves two weeks without an opening.
_MARGIN = 17

Openings = tuple[tuple[datetime, datetime], ...]
"""When a window is open, in order, apart from each other: from the first to before the second."""

_HELP = 'write for example "22:00-06:00" or "mon-fri 09:00-17:00, sat 10:00-12:00 Europe/Berlin"'


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """A time of day to another, on some days of the week (0 is Monday)."""

    opens: time
    closes: time
    days: tuple[int, ...] = tuple(range(7))

    def __post_init__(self) -> None:
        check_time(self.opens, FIELD)
        check_time(self.closes, FIELD)
        days = tuple(sorted(set(self.days)))
        if not days or days[0] < 0 or days[-1] > 6:
            raise InvalidInput(FIELD, "the days of a span are one or more of mon to sun")
        object.__setattr__(self, "days", days)
        if self.opens == self.closes != _MIDNIGHT:
            raise InvalidInput(FIELD, "opens and closes at the same time; a day is 00:00-24:00")

    def on(self, day: date) -> tuple[datetime, datetime]:
        """Opening and closing by the wall clock, for the span that opens on the day."""
        closing_day = day if self.closes > self.opens else day + _DAY
        return datetime.combine(day, self.opens), datetime.combine(closing_day, self.closes)

    def __str__(self) -> str:
        closes = "24:00" if self.closes == _MIDNIGHT else f"{self.closes:%H:%M}"
        hours = f"{self.opens:%H:%M}-{closes}"
        return hours if len(self.days) == 7 else f"{_format_days(self.days)} {hours}"


@dataclass(frozen=True, slots=True)
class Window:
    """When beats may run, and whether one outside moves to the next opening or is skipped."""

    spans: tuple[WindowSpan, ...]
    zone: str = "UTC"
    outside: str = "move"

    def __post_init__(self) -> None:
        check_zone(self.zone, f"{FIELD}.zone")
        if self.outside not in OUTSIDE:
            raise InvalidInput(f"{FIELD}.outside", f"must be {' or '.join(OUTSIDE)}")
        if not 0 < len(self.spans) <= MAX_SPANS:
            raise InvalidInput(FIELD, f"needs from 1 to {MAX_SPANS} spans; {_HELP}")

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read a window from its text, or from an object with `open`, `zone` and `outside`."""
        if isinstance(value, dict):
            return cls._from_object(cast("dict[Any, Any]", value))
        text = value.replace(_EN_DASH, "-") if isinstance(value, str) else value
        words = check_plain_text(text, FIELD).replace(" - ", "-").replace(";", ",").split()
        given: dict[str, str] = {}
        for name in ("outside", "zone"):
            if words and words[-1].startswith(f"{name}="):
                given[name] = words.pop().partition("=")[2]
        if "zone" not in given and words and not words[-1].rstrip(",")[-1:].isdigit():
            given["zone"] = words.pop()
        return cls(tuple(_read_spans(words)), **given)

    @classmethod
    def _from_object(cls, given: dict[Any, Any]) -> Self:
        for name in given:
            if name not in ("open", "zone", "outside"):
                raise InvalidInput(f"{FIELD}.{str(name)[:40]}", "is not a field of a window")
        texts = given.get("open")
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(texts, list):
            raise InvalidInput(f"{FIELD}.open", f"must be a list of texts; {_HELP}")
        spans: list[WindowSpan] = []
        for text in cast("list[Any]", texts[: MAX_SPANS + 1]):
            plain = text.replace(_EN_DASH, "-") if isinstance(text, str) else text
            spans += _read_spans(check_plain_text(plain, f"{FIELD}.open").split())
        return cls(tuple(spans), given.get("zone", "UTC"), given.get("outside", "move"))

    def to_text(self) -> str:
        zone = "" if self.zone == "UTC" else f" {self.zone}"
        outside = "" if self.outside == "move" else f" outside={self.outside}"
        return ", ".join(map(str, self.spans)) + zone + outside

    def to_object(self) -> dict[str, Any]:
        return {"open": [str(span) for span in self.spans], "zone": self.zone} | {
            "outside": self.outside
        }

    def describe(self) -> str:
        otherwise = "moved to the next opening" if self.outside == "move" else "skipped"
        spans = ", ".join(map(str, self.spans))
        return f"only {spans} ({self.zone}), otherwise {otherwise}"

    def is_open(self, instant: datetime) -> bool:
        openings, following = self._openings(instant)
        return instant < openings[following - 1][1]

    def next_opening(self, instant: datetime) -> datetime:
        """The first opening strictly later, for an instant outside."""
        openings, following = self._openings(instant)
        return openings[following][0]

    def closed_since(self, instant: datetime) -> datetime:
        """The last closing not later, for an instant outside."""
        openings, following = self._openings(instant)
        return openings[following - 1][1]

    def openings_between(self, start: datetime, end: datetime) -> Openings:
        """Every opening and closing from the start to before the end, at most two weeks later."""
        openings, following = self._openings(start)
        return tuple(
            (opens, closes)
            for opens, closes in openings[following - 1 :]
            if opens < end and closes > start
        )

    def _openings(self, instant: datetime) -> tuple[Openings, int]:
        """The openings around the instant, and the place of the first that is later."""
        openings = _openings(self, instant.toordinal() // _BLOCK)
        return openings, bisect_right(openings, instant, key=itemgetter(0))


@lru_cache(maxsize=512)
def _openings(window: Window, block: int) -> Openings:
    """Every time the window is open in a block of days, and the margin before and after it."""
    merged: list[tuple[datetime, datetime]] = []
    for opens, closes in sorted(_spans_around(window, block)):
        if merged and opens <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], closes))
        else:
            merged.append((opens, closes))
    return tuple(merged)


def _spans_around(window: Window, block: int) -> Iterator[tuple[datetime, datetime]]:
    for ordinal in range(block * _BLOCK - _MARGIN, (block + 1) * _BLOCK + _MARGIN):
        local_day = date.fromordinal(ordinal)
        for span in window.spans:
            if local_day.weekday() in span.days:
                opens, closes = (wall_to_instant(wall, window.zone) for wall in span.on(local_day))
                # A clock that leaps over a whole span leaves nothing of it.
                if opens < closes:
                    yield opens, closes


def _read_spans(words: list[str]) -> Iterator[WindowSpan]:
    days: tuple[int, ...] = ()
    for word in words:
        part = word.rstrip(",")
        if part[:1].isalpha():
            days += tuple(_read_days(part))
            continue
        opens, separator, closes = part.partition("-")
        if not separator:
            raise InvalidInput(FIELD, f"{part[:40]!r} is not understood; {_HELP}")
        closing = _MIDNIGHT if closes == "24:00" else read_time(closes, FIELD)
        opening = read_time(opens, FIELD)
        if opening.second or closing.second:
            raise InvalidInput(FIELD, "windows open and close at whole minutes")
        yield WindowSpan(opening, closing, days or tuple(range(7)))
        days = ()
    if days:
        raise InvalidInput(FIELD, f"days without hours; {_HELP}")


def _read_days(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, separator, last = part.partition("-")
        start = DAYS.index(read_day(first, FIELD))
        end = DAYS.index(read_day(last, FIELD)) if separator else start
        yield from (number % 7 for number in range(start, start + (end - start) % 7 + 1))


def _format_days(days: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for day in days:
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(
        DAYS[run[0]] if len(run) == 1 else f"{DAYS[run[0]]}-{DAYS[run[-1]]}" for run in runs
    )
