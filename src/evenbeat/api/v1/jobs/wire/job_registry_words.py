"""The words of a job registry for a schedule, read into ours.

A row of its table always has all five columns. Those that its type does not use have the default, 0
or -1.
"""

from typing import Any, cast

from evenbeat.core.errors import InvalidInput

TYPE = "schedule_type"
SECONDS, HOUR, MINUTE = "interval_seconds", "schedule_hour", "schedule_minute"
DAY = "schedule_day_of_week"
DEFAULTS = {SECONDS: 0, HOUR: -1, MINUTE: 0, DAY: -1}
# The registry counts days from Sunday, 0.
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
RANGES = {SECONDS: (1, 10**9), HOUR: (0, 23), MINUTE: (0, 59), DAY: (0, 6)}
USED = {
    "interval": (SECONDS,),
    "hourly": (MINUTE,),
    "daily": (HOUR, MINUTE),
    "weekly": (DAY, HOUR, MINUTE),
}
# Not a column of the registry, but a time of day needs a zone.
ZONE = "zone"


def read_schedule(written: Any) -> Any:
    """The schedule in our words. A schedule without `schedule_type` is returned as it is."""
    if not isinstance(written, dict):
        return written
    row = cast("dict[str, Any]", written)
    if TYPE not in row:
        return row
    kind = row[TYPE]
    if not isinstance(kind, str) or kind not in USED:
        raise schedule_error(TYPE, f"must be one of {', '.join(USED)}")
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
    """Refuse a bad value in a column that the type uses, and any value in one it does not use."""
    allowed = {TYPE, *DEFAULTS, *([] if kind == "interval" else [ZONE])}
    if unknown := sorted(str(name) for name in row.keys() - allowed):
        raise schedule_error(unknown[0], f"does not go with schedule_type {kind}")
    for name, default in DEFAULTS.items():
        value = row.get(name, default)
        is_number = type(value) is int
        least, most = RANGES[name]
        if name in USED[kind] and not (is_number and least <= value <= most):
            raise schedule_error(name, f"must be a whole number from {least} to {most}")
        # An unused column may hold the default of any column: 0 or -1.
        if name not in USED[kind] and not (is_number and value in (default, 0, -1)):
            raise schedule_error(name, f"does not go with schedule_type {kind}")


def schedule_error(name: str, message: str) -> InvalidInput:
    return InvalidInput(f"schedule.{name}", message)
