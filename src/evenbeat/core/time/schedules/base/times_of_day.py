"""Times of day and days of the week, as texts."""

from datetime import time
from typing import Any

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import check_plain_text

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_WORDS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_DAY_OF = {name: name for name in DAYS} | {
    word.lower(): day for word, day in zip(DAY_WORDS, DAYS, strict=True)
}


def is_day(word: str) -> bool:
    return word.lower() in _DAY_OF


def read_day(value: Any, field: str) -> str:
    """One of `mon` to `sun`, from that or from the whole word."""
    text = check_plain_text(value, field)
    if not is_day(text):
        raise InvalidInput(field, f"{text[:40]!r} is not a day of the week; write mon to sun")
    return _DAY_OF[text.lower()]


def day_word(day: str) -> str:
    return DAY_WORDS[DAYS.index(day)]


def read_time(value: Any, field: str) -> time:
    """A time of day from `HH:MM` or `HH:MM:SS`."""
    text = check_plain_text(value, field)
    numbers = _numbers(text, field, "06:00")
    if len(numbers) not in (2, 3) or numbers[0] > 23 or max(numbers[1:]) > 59:
        raise InvalidInput(field, f"{text[:40]!r} is not a time of day; write for example 06:00")
    hour, minute, second = (*numbers, 0)[:3]
    return time(hour, minute, second)


def read_minute(value: Any, field: str) -> tuple[int, int]:
    """Minute and second of the hour from `:MM` or `:MM:SS`."""
    text = check_plain_text(value, field)
    numbers = _numbers(text.removeprefix(":"), field, ":15")
    if not text.startswith(":") or len(numbers) not in (1, 2) or max(numbers) > 59:
        raise InvalidInput(field, f"{text[:40]!r} is not a minute; write for example :15")
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def format_time(at: time) -> str:
    return at.isoformat() if at.second else f"{at:%H:%M}"


def format_minute(minute: int, second: int) -> str:
    return f":{minute:02d}:{second:02d}" if second else f":{minute:02d}"


def _numbers(text: str, field: str, example: str) -> list[int]:
    parts = text.split(":")
    if not all(part.isdigit() and len(part) <= 2 for part in parts):
        raise InvalidInput(field, f"{text[:40]!r} is not a time; write for example {example}")
    return [int(part) for part in parts]


def check_time(value: Any, field: str) -> None:
    if not isinstance(value, time) or value.tzinfo is not None or value.microsecond:
        raise InvalidInput(field, "must be a time of day in whole seconds, without an offset")
