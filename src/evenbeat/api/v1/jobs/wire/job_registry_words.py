"""The words of a job registry for a schedule, and ours: a row of its table is read as it is.

Its rows always have all five columns; those that a type does not use hold its defaults, 0 and -1.
"""

from typing import Any, cast

from evenbeat.core.errors import InvalidInput

TYPE = "schedule_type"
SECONDS, HOUR, MINUTE = "interval_seconds", "schedule_hour", "schedule_minute"
DAY = "schedule_day_of_week"
DEFAULTS = {SECONDS: 0, HOUR: -1, MINUTE: 0, DAY: -1}
# By the number of the day.
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
RANGES = {SECONDS: (1, 10**9), HOUR: (0, 23), MINUTE: (0, 59), DAY: (0, 6)}
USED = {
    "interval": (SECONDS,),
    "hourly": (MINUTE,),
    "daily": (HOUR, MINUTE),
    "weekly": (DAY, HOUR, MINUTE),
}
# Not of theirs, but their times of day need one.
ZONE = "zone"


def read_schedule(written: Any) -> Any:
    """A schedule in our words: what is not in theirs is left as it is."""
    if not isinstance(written, dict):
        return written
    row = cast("dict[str, Any]", written)
    if TYPE not in row:
        return row
    kind = row[TYPE]
    if not isinstance(kind, str) or kind not in USED:
        raise fault(TYPE, f"must be one of {', '.join(USED)}")
    check_columns(row, kind)
    given = {name: row.get(name, default) for name, default in DEFAULTS.items()}
    at = f"{given[HOUR]:02}:{given[MINUTE]:02}"
    match kind:
        case "interval":
            return {"every": given[SECONDS]}
        case "hourly":
            ours: dict[str, Any] = {"hourly": given[MINUTE]}
        case "daily":
            ours = {"daily": at}
        case _:
            ours = {"weekly": f"{DAYS[given[DAY]]} {at}"}
    return ours if row.get(ZONE) is None else ours | {ZONE: row[ZONE]}


def check_columns(row: dict[str, Any], kind: str) -> None:
    """What the type uses must make sense, and what it does not use must say nothing."""
    allowed = {TYPE, *DEFAULTS, *([] if kind == "interval" else [ZONE])}
    if unknown := sorted(str(name) for name in row.keys() - allowed):
        raise fault(unknown[0], f"does not go with schedule_type {kind}")
    for name, default in DEFAULTS.items():
        value = row.get(name, default)
        is_number = type(value) is int
        least, most = RANGES[name]
        if name in USED[kind] and not (is_number and least <= value <= most):
            raise fault(name, f"must be a whole number from {least} to {most}")
        # A minute is 0 where it does not count; the rest may be 0 or -1.
        if name not in USED[kind] and not (is_number and value in (default, 0, -1)):
            raise fault(name, f"does not go with schedule_type {kind}")


def fault(name: str, message: str) -> InvalidInput:
    return InvalidInput(f"schedule.{name}", message)
