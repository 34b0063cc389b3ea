"""Lengths of time as people and programs write them, to timedelta and back.

Read: `30m`, `1h30m`, `1 hour 30 minutes`, `PT30M`, `P1DT2H`, and a plain number of seconds.
Months and years are not lengths (they differ), so they are refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from evenbeat.core.errors import InvalidInput
from evenbeat.core.limits import LONGEST_DURATION

MAX_TEXT = 256
MAX_DIGITS = 12

_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DurationUnit:
    """A unit by its short name, its word, and every other way to write it."""

    short: str
    word: str
    length: timedelta
    others: tuple[str, ...] = ()

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.short, self.word, f"{self.word}s", *self.others)


WEEK = DurationUnit("w", "week", timedelta(weeks=1))
DAY = DurationUnit("d", "day", timedelta(days=1))
HOUR = DurationUnit("h", "hour", timedelta(hours=1), ("hr", "hrs"))
MINUTE = DurationUnit("m", "minute", timedelta(minutes=1), ("min", "mins"))
SECOND = DurationUnit("s", "second", _SECOND, ("sec", "secs"))
MILLISECOND = DurationUnit("ms", "millisecond", timedelta(milliseconds=1))

_UNITS = {
    spelling: unit
    for unit in (WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND)
    for spelling in unit.spellings
}
_ISO_DATE = {"W": WEEK, "D": DAY}
_ISO_TIME = {"H": HOUR, "M": MINUTE, "S": SECOND}
_PRINTED = (DAY, HOUR, MINUTE, SECOND)


@dataclass(frozen=True, slots=True)
class DurationLimits:
    """What a duration may be: from shortest to longest, and whether parts of a second count."""

    shortest: timedelta = timedelta(0)
    longest: timedelta = LONGEST_DURATION
    fractions: bool = False


ANY_DURATION = DurationLimits()
EXACT_DURATION = DurationLimits(fractions=True)


def parse_duration(
    value: Any, field: str = "duration", limits: DurationLimits = ANY_DURATION
) -> timedelta:
    """Read a duration from text, or from a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInput(field, 'write a duration such as "30m", or a number of seconds')
    micros = _micros_of_text(value, field) if isinstance(value, str) else _micros(value, field)
    if micros > LONGEST_DURATION // _MICROSECOND:
        raise InvalidInput(field, f"at most {format_duration(limits.longest)}")
    if not limits.fractions and micros % 1_000_000:
        raise InvalidInput(field, "whole seconds only")
    length = timedelta(microseconds=int(micros))
    if length < limits.shortest:
        raise InvalidInput(field, f"at least {format_duration(limits.shortest)}")
    if length > limits.longest:
        raise InvalidInput(field, f"at most {format_duration(limits.longest)}")
    return length


def format_duration(length: timedelta) -> str:
    """The shortest exact text that `parse_duration` reads back: `1h30m`, `250ms`, `0s`."""
    if timedelta(0) < length < _SECOND and not length % MILLISECOND.length:
        return f"{length // MILLISECOND.length}ms"
    return "".join(f"{count}{unit.short}" for count, unit in _counted(length)) or "0s"


def describe_duration(length: timedelta) -> str:
    """The duration in words: `1 hour 30 minutes`."""
    parts = [
        f"{count} {unit.word}" + ("" if count == "1" else "s") for count, unit in _counted(length)
    ]
    return " ".join(parts) or "0 seconds"


def round_for_people(length: timedelta) -> timedelta:
    """No finer than one can take in: hours and minutes, not seconds as well."""
    length = max(length, timedelta(0))
    for larger, finer in pairwise(_PRINTED):
        if length >= larger.length:
            return length - length % finer.length
    return length - length % _SECOND


def check_plain_text(value: Any, field: str, longest: int = MAX_TEXT) -> str:
    """The value if it is printable ASCII text of bounded length: what every parser asks first."""
    if not isinstance(value, str):
        raise InvalidInput(field, "must be a text")
    if len(value) > longest:
        raise InvalidInput(field, f"at most {longest} characters")
    text = value.replace("\t", " ")
    if not text.isascii() or not text.isprintable():
        raise InvalidInput(field, "only plain letters, digits and signs")
    return text


def is_unit(word: str) -> bool:
    return _spelling(word) in _UNITS


def _counted(length: timedelta) -> Iterator[tuple[str, DurationUnit]]:
    if length < timedelta(0):
        raise ValueError(f"a duration is never negative: {length!r}")
    for unit in _PRINTED:
        count, length = divmod(length, unit.length)
        if unit is SECOND and length:
            yield f"{count}.{length.microseconds:06d}".rstrip("0"), unit
        elif count:
            yield str(count), unit


def _micros(seconds: float, field: str) -> Decimal:
    # A float above the longest would lose its fraction, and NaN is not below it either.
    if not 0 <= seconds <= LONGEST_DURATION.total_seconds():
        raise InvalidInput(field, f"from 0 to {int(LONGEST_DURATION.total_seconds())} seconds")
    return (Decimal(str(seconds)) * 1_000_000).to_integral_value()


def _micros_of_text(value: str, field: str) -> Decimal:
    text = check_plain_text(value, field).strip()
    pairs = _iso_pairs(text) if text.startswith("P") else _pairs(text)
    total = Decimal(0)
    previous = None
    for number, unit in _checked(pairs, text, field):
        if previous is not None and unit.length >= previous.length:
            raise InvalidInput(field, f"{text!r}: write the longest unit first, each unit once")
        total += number * (unit.length // _MICROSECOND)
        previous = unit
    if previous is None:
        raise _unreadable(text, field)
    if total % 1:
        raise InvalidInput(field, f"{text!r} is finer than a microsecond")
    return total


def _checked(
    pairs: Iterator[tuple[str, DurationUnit | None]], text: str, field: str
) -> Iterator[tuple[Decimal, DurationUnit]]:
    for number, unit in pairs:
        whole, _, fraction = number.partition(".")
        if unit is None or not whole.isdigit() or (fraction and not fraction.isdigit()):
            raise _unreadable(text, field)
        if len(number) > MAX_DIGITS or number.endswith("."):
            raise InvalidInput(field, f"{number!r} is not a number that can be counted here")
        yield Decimal(number), unit


def _unreadable(text: str, field: str) -> InvalidInput:
    return InvalidInput(
        field, f'{text!r} is not a duration; write for example "30m", "1h30m" or "PT30M"'
    )


def _pairs(text: str) -> Iterator[tuple[str, DurationUnit | None]]:
    for number, word in _split(text.replace(" ", "")):
        yield number, _UNITS.get(_spelling(word))


def _iso_pairs(text: str) -> Iterator[tuple[str, DurationUnit | None]]:
    date, separator, time = text[1:].partition("T")
    if separator and not time:
        yield "", None
    for number, word in _split(date):
        yield number, _ISO_DATE.get(word)
    for number, word in _split(time):
        yield number, _ISO_TIME.get(word)


def _split(text: str) -> Iterator[tuple[str, str]]:
    """Cut `1h30m` into ("1", "h"), ("30", "m"), in one pass."""
    number = word = ""
    for sign in text:
        if sign.isalpha():
            word += sign
            continue
        if word:
            yield number, word
            number = word = ""
        number += sign
    if number or word:
        yield number, word


def _spelling(word: str) -> str:
    # One capital letter is not folded: `5 H` may be two fields of a cron, `5M` may mean months.
    return word if len(word) == 1 else word.lower()
