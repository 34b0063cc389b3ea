"""When the clocks of a zone change: the changes its file lists, and the yearly rule after them.

zoneinfo knows both and has no function that lists them. Asking it for the offset of every day of
two centuries takes a tenth of a second; the list is read here in a fraction of a millisecond.
"""

import struct
import zoneinfo
from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

import tzdata

from evenbeat.core.time.schedules.base.instants import EPOCH

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
# A yearly rule has two changes, months apart.
_STRIDE = 10 * _DAY

_HEADER = 44


def find_zone_file(zone: str) -> Path | None:
    """The zone's file, where zoneinfo finds it: the machine's own goes before the package's."""
    for root in (*zoneinfo.TZPATH, Path(tzdata.__file__).with_name("zoneinfo")):
        file = Path(root, zone)
        if file.is_file():
            return file
    return None


def offset_at(zone: str, instant: datetime) -> timedelta:
    return instant.astimezone(load_zone(zone)).utcoffset() or timedelta(0)


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def find_clock_changes(zone: str, year: int) -> list[datetime]:
    """Every instant of the year from which on the offset is another one."""
    listed, has_rule = _read_listed_changes(zone)
    last_year = listed[-1].year if listed else 0
    begin, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    if year < last_year:
        within = listed[bisect_left(listed, begin) : bisect_left(listed, end)]
        return [at for at in within if offset_at(zone, at) != offset_at(zone, at - _SECOND)]
    if year == last_year:
        return list(_search_changes(zone, begin, end, _DAY))
    if not has_rule:
        return []
    # The rule names weekdays of months: in years with the same calendar it names the same days.
    calendar = (begin.weekday(), isleap(year))
    return [begin + age for age in _ages_of_changes(zone, last_year, calendar)]


@lru_cache(maxsize=1024)
def _read_listed_changes(zone: str) -> tuple[list[datetime], bool]:
    """The changes that the zone's file lists, and whether a yearly rule follows them."""
    file = find_zone_file(zone)
    data = b"" if file is None else file.read_bytes()
    if data[:4] != b"TZif":
        raise ValueError(f"{zone} is not a zone")
    seconds, end = _read_block(data, 0, "l")
    if data[4:5] >= b"2":
        # The first block is for readers that know 32 bits only; the second has it all again.
        seconds, end = _read_block(data, end, "q")
    listed = [EPOCH + each * _SECOND for each in seconds if each > 0]
    return listed, b"," in data[end:]


def _read_block(data: bytes, start: int, integer: str) -> tuple[tuple[int, ...], int]:
    """The times of one block of a TZif file (RFC 8536), and where the block ends."""
    utc, standard, leaps, times, types, letters = struct.unpack_from(">6l", data, start + 20)
    width, begin = struct.calcsize(f">{integer}"), start + _HEADER
    length = times * (width + 1) + types * 6 + letters + leaps * (width + 4) + standard + utc
    return struct.unpack_from(f">{times}{integer}", data, begin), begin + length


@lru_cache(maxsize=4096)
def _ages_of_changes(zone: str, after: int, calendar: tuple[int, bool]) -> tuple[timedelta, ...]:
    """How far into a year of this calendar the changes by rule lie."""
    year = after + 1
    while (datetime(year, 1, 1, tzinfo=UTC).weekday(), isleap(year)) != calendar:
        year += 1
    begin, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    return tuple(change - begin for change in _search_changes(zone, begin, end, _STRIDE))


def _search_changes(
    zone: str, begin: datetime, end: datetime, step: timedelta
) -> Iterator[datetime]:
    """The changes from the begin to before the end, none of them within a step of another."""
    at, offset = begin - _SECOND, offset_at(zone, begin - _SECOND)
    while at < end - _SECOND:
        following = min(at + step, end - _SECOND)
        next_offset = offset_at(zone, following)
        if next_offset != offset:
            yield _bisect(zone, at, following)
        at, offset = following, next_offset


def _bisect(zone: str, low: datetime, high: datetime) -> datetime:
    offset = offset_at(zone, low)
    while high - low > _SECOND:
        middle = low + (high - low) // (2 * _SECOND) * _SECOND
        low, high = (middle, high) if offset_at(zone, middle) == offset else (low, middle)
    return high
