"""The interval scheduler's words for a schedule: how they are read, and how a schedule is shown in
them.

Its clients write a number and a unit (`interval_minutes` 6 of `interval_type` hours), a cron text,
and whether the schedule is enabled. They get back the very words they wrote, so these are stored
beside the definition. A schedule that was written in our words is shown in theirs where possible.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import Definition
from evenbeat.core.limits import LONGEST_DURATION
from evenbeat.core.time.durations import describe_duration
from evenbeat.core.time.schedules.cron import Cron
from evenbeat.core.time.schedules.every import Every

UNITS = {
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
    "days": timedelta(days=1),
}
WORDS = ("interval_minutes", "interval_type", "schedule_time", "schedule_enabled")
SUSPICIOUS_COUNT = 60


def read_schedule(words: Mapping[str, Any]) -> Any:
    """The schedule that these words ask for: an interval, a cron, or once and now."""
    interval = read_interval(words)
    is_enabled = words.get("schedule_enabled")
    if interval is None and words.get("schedule_time") is None:
        if is_enabled:
            raise InvalidInput(
                "schedule_enabled",
                "there is no schedule to enable: give interval_minutes or schedule_time as well",
            )
        return "now"
    if is_enabled is False:
        return "now"
    if interval is None:
        return {"cron": words["schedule_time"]}
    return {"every": int(interval.total_seconds())}


def read_interval(words: Mapping[str, Any]) -> timedelta | None:
    count = words.get("interval_minutes")
    if count is None:
        return None
    unit = UNITS[words.get("interval_type") or "minutes"]
    most = LONGEST_DURATION // unit
    if not 1 <= count <= most:
        raise InvalidInput("interval_minutes", f"must be from 1 to {most} for this interval_type")
    return count * unit


def schedule_words(definition: Definition) -> dict[str, Any]:
    """The schedule of a job in their words: as the client wrote it, or the nearest they have."""
    schedule = definition.timetable.schedule
    if definition.wording:
        words = {word: definition.wording.get(word) for word in WORDS}
        # A unit that the client left out is minutes, and is shown.
        if words["interval_minutes"] is not None:
            words["interval_type"] = words["interval_type"] or "minutes"
        return words | {"schedule_enabled": schedule.is_recurring}
    count, unit = find_interval_unit(definition)
    return {
        "interval_minutes": count,
        "interval_type": unit,
        "schedule_time": schedule.expression if isinstance(schedule, Cron) else None,
        "schedule_enabled": schedule.is_recurring,
    }


def find_interval_unit(definition: Definition) -> tuple[int | None, str | None]:
    """An interval in the largest unit that divides it. They have no unit for seconds."""
    schedule = definition.timetable.schedule
    if not isinstance(schedule, Every):
        return None, None
    for unit in ("days", "hours", "minutes"):
        if not schedule.interval % UNITS[unit]:
            return schedule.interval // UNITS[unit], unit
    return None, None


def find_warnings(words: Mapping[str, Any]) -> list[str]:
    """What the client has probably not meant."""
    warnings: list[str] = []
    if words.get("interval_minutes") and words.get("schedule_time"):
        warnings.append("schedule_time is not used, since there is an interval")
    unit = words.get("interval_type")
    count = words.get("interval_minutes") or 0
    if unit in ("hours", "days") and count >= SUSPICIOUS_COUNT:
        period = describe_duration(count * UNITS[unit])
        warnings.append(f"interval_minutes counts {unit} here: this job runs every {period}")
    return warnings
