"""Time zones as stretches of one offset each, and the one place where wall clocks become instants.

Every wall-clock time belongs to exactly one stretch under a given rule for clock changes. Where
the clock leaps forward (a gap), the stretch after it may also own the times leapt over, and meets
them at its very start; where the clock is set back (an overlap), the stretch after it may own the
repeated times again, or leave them to the stretch before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Self
from zoneinfo import ZoneInfoNotFoundError, available_timezones

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import check_plain_text
from evenbeat.core.time.schedules.base.clock_changes import (
    find_clock_changes,
    find_zone_file,
    load_zone,
    offset_at,
)
from evenbeat.core.time.schedules.base.instants import LAST_INSTANT

MAX_ZONE = 64
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)

# Files of the zone database that are not zones, or count leap seconds.
_NOT_ZONES = ("posix/", "right/", "localtime", "posixrules", "Factory", "leap", "tzdata")

GAPS = ("after", "skip")
OVERLAPS = ("once", "both")


@dataclass(frozen=True, slots=True)
class Dst:
    """What becomes of wall-clock times that a clock change leaves out or repeats.

    gap: `after` (right after the leap) or `skip`; overlap: `once` (the first time) or `both`.
    """

    gap: str = "after"
    overlap: str = "once"

    def __post_init__(self) -> None:
        for field, value, allowed in (("gap", self.gap, GAPS), ("overlap", self.overlap, OVERLAPS)):
            if value not in allowed:
                raise InvalidInput(f"schedule.dst.{field}", f"must be {' or '.join(allowed)}")

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read `skip/both`, or an object with `gap` and `overlap`."""
        if isinstance(value, dict):
            given: dict[Any, Any] = {**value}
            unknown = [str(name)[:40] for name in given if name not in ("gap", "overlap")]
            if unknown:
                raise InvalidInput("schedule.dst", f"has no {unknown[0]!r}, only gap and overlap")
            return cls(**given)
        gap, separator, overlap = check_plain_text(value, "schedule.dst").partition("/")
        if not separator:
            raise InvalidInput("schedule.dst", "write gap/overlap, for example skip/both")
        return cls(gap, overlap)

    def __str__(self) -> str:
        return f"{self.gap}/{self.overlap}"


FIXED_TIMES = Dst("after", "once")
"""Debian's rule for jobs at fixed times: each time of day happens once."""

ELAPSED_TIME = Dst("skip", "both")
"""Debian's rule for jobs with a wildcard hour or minute: whatever the clock shows, counts."""


@dataclass(frozen=True, slots=True)
class OffsetPeriod:
    """Instants with one offset, cut at the turn of the year; `before` is the offset until then."""

    starts_at: datetime
    ends_at: datetime
    offset: timedelta
    before: timedelta

    def first_wall(self, dst: Dst) -> datetime:
        """Where the wall-clock times begin that this stretch owns."""
        if self.offset > self.before:
            reach = self.before if dst.gap == "after" else self.offset
        else:
            reach = self.before if dst.overlap == "once" else self.offset
        return (self.starts_at + reach).replace(tzinfo=None)

    def end_wall(self) -> datetime:
        return self.wall_at(self.ends_at)

    def wall_at(self, instant: datetime) -> datetime:
        return (instant + self.offset).replace(tzinfo=None)

    def instant_at(self, wall: datetime) -> datetime:
        return max(self.starts_at, wall.replace(tzinfo=UTC) - self.offset)


def check_zone(name: Any, field: str = "schedule.zone") -> str:
    """The name, if it is one of the zone database."""
    text = check_plain_text(name, field)
    if _is_zone(text):
        return text
    raise InvalidInput(
        field, f"{text[:MAX_ZONE]!r} is not a known time zone; write for example Europe/Berlin"
    )


def known_zones() -> frozenset[str]:
    """Every name that `check_zone` takes."""
    return frozenset(filter(_is_zone, available_timezones()))


@lru_cache(maxsize=1024)
def _is_zone(name: str) -> bool:
    if len(name) > MAX_ZONE or name.startswith(_NOT_ZONES):
        return False
    try:
        # zoneinfo takes 40 ms for the first name that it does not find.
        return find_zone_file(name) is not None and bool(load_zone(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def offset_periods_from(instant: datetime, zone: str) -> Iterator[OffsetPeriod]:
    """The stretch that holds the instant, and all that follow."""
    for year in range(instant.year, LAST_INSTANT.year + 1):
        for stretch in _offset_periods_of_year(zone, year):
            if stretch.ends_at > instant:
                yield stretch


def wall_to_instant(wall: datetime, zone: str) -> datetime:
    """The instant at which the clocks of the zone show this time, first or next."""
    # Two days back: no offset is farther from UTC, nor any clock change larger.
    for stretch in offset_periods_from(wall.replace(tzinfo=UTC) - 2 * _DAY, zone):
        if wall < stretch.end_wall():
            return stretch.instant_at(wall)
    return wall.replace(tzinfo=UTC)


@lru_cache(maxsize=4096)
def _offset_periods_of_year(zone: str, year: int) -> tuple[OffsetPeriod, ...]:
    begin, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    # The begin itself may be a change, and is a cut already.
    cuts = [begin, *(at for at in find_clock_changes(zone, year) if at > begin), end]
    offsets = [offset_at(zone, at) for at in (begin - _SECOND, *cuts[:-1])]
    return tuple(map(OffsetPeriod, cuts, cuts[1:], offsets[1:], offsets))
