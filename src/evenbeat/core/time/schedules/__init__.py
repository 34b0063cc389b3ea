"""Schedules: rules of recurrence as values, one file per kind.

A schedule is written as a text, or as an object with the kind's name as a key:

    every 30m                        {"every": "30m"}       or seconds: {"every": 1800}
    every 1h30m phase=2m             {"every": "1h30m", "phase": "2m"}
    hourly :15                       {"hourly": ":15"}      or {"hourly": 15}
    daily 06:00 Europe/Berlin        {"daily": "06:00", "zone": "Europe/Berlin"}
    weekly sun 02:00                 {"weekly": "sun 02:00", "zone": "UTC"}
    0 8 * * MON-FRI Europe/Berlin    {"cron": "0 8 * * MON-FRI", "zone": "Europe/Berlin"}
    H H(0-7) * * * seed=reports      {"cron": "H H(0-7) * * *", "zone": "UTC", "seed": "reports"}
    once 2026-12-01T08:00:00Z        {"once": "2026-12-01T08:00:00Z"}
    now                              {"now": true}

A text is the rule, then its zone (or `zone=…`; `CRON_TZ=…` in front), then options:
`dst=skip/both` says what becomes of times in a gap (`after`, `skip`) and in an overlap (`once`,
`both`), `phase=…` where an interval's beats lie after the epoch, `seed=…` what chooses the H
fields. `30m`, `PT30M` and `90 seconds` alone are intervals, `sun 02:00` alone is weekly, `hourly`
alone is :00, and `@hourly @daily @midnight @weekly @monthly @yearly @annually` are crons. Texts and
objects go back and forth without loss.

A new kind is a new module here: a frozen dataclass that derives from Schedule and has a `kind`.
"""

from importlib import import_module
from pkgutil import iter_modules

from evenbeat.core.time.schedules.base.schedule import (
    KINDS,
    Schedule,
    parse_schedule,
    parse_schedule_object,
)
from evenbeat.core.time.schedules.base.zones import Dst

for _module in iter_modules(__path__):
    if not _module.ispkg:
        import_module(f"{__name__}.{_module.name}")

__all__ = ["KINDS", "Dst", "Schedule", "parse_schedule", "parse_schedule_object"]
