"""Instants: aware datetimes in UTC, within the two centuries that Evenbeat plans for."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import check_plain_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)
LAST_INSTANT = datetime(2200, 1, 1, tzinfo=UTC)
RESOLUTION = timedelta(microseconds=1)
BEFORE_FIRST = FIRST_INSTANT - RESOLUTION
AFTER_LAST = LAST_INSTANT + RESOLUTION


def as_utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError(f"an instant needs a time zone: {instant!r}")
    return instant if instant.tzinfo is UTC else instant.astimezone(UTC)


def check_instant(value: Any, field: str) -> datetime:
    """The instant in UTC, if it lies in the centuries that can be planned."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidInput(field, "must be an instant with an offset, such as 2026-12-01T08:00Z")
    try:
        instant = value.astimezone(UTC)
    except OverflowError:
        instant = None
    if instant is None or not FIRST_INSTANT <= instant <= LAST_INSTANT:
        raise InvalidInput(field, "must lie between 2000-01-01 and 2200-01-01")
    return instant


def read_datetime(value: Any, field: str) -> datetime:
    """An ISO 8601 date and time, with or without an offset."""
    if isinstance(value, datetime):
        return value
    text = check_plain_text(value, field).strip()
    if len(text) > len("YYYY-MM-DD"):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(text)
    raise InvalidInput(
        field, f"{text!r} is not a date and time; write for example 2026-12-01T08:00:00Z"
    )


def read_instant(value: Any, field: str) -> datetime:
    return check_instant(read_datetime(value, field), field)


def format_instant(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
