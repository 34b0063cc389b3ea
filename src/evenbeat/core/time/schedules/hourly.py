"""Every hour, at a minute."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.cron_pattern import CronPattern, parse_pattern
from evenbeat.core.time.schedules.base.schedule import RuleOptions
from evenbeat.core.time.schedules.base.times_of_day import format_minute, read_minute
from evenbeat.core.time.schedules.base.wall_clock import WallClock, take_zone

FIELD = "schedule.hourly"


@dataclass(frozen=True, slots=True)
class Hourly(WallClock):
    """Beats at a minute of every hour, the repeated hour of autumn included."""

    minute: int = 0
    second: int = 0

    kind: ClassVar[str] = "hourly"

    def __post_init__(self) -> None:
        WallClock.__post_init__(self)
        for value in (self.minute, self.second):
            if type(value) is not int or not 0 <= value <= 59:
                raise InvalidInput(FIELD, "the minute must be a whole number from 0 to 59")

    @classmethod
    def from_words(cls, words: Sequence[str], options: RuleOptions) -> Self:
        rest = list(words)
        at = rest.pop(0) if rest and rest[0][:1] in ":0123456789" else ":00"
        zone = take_zone(rest, options)
        if rest:
            raise InvalidInput(FIELD, 'write for example "hourly :15"')
        return cls(*read_minute(at, FIELD), zone=zone, dst=options.dst)

    @classmethod
    def from_value(cls, value: Any, options: RuleOptions) -> Self:
        at = read_minute(value, FIELD) if isinstance(value, str) else (value, 0)
        return cls(*at, zone=options.zone or "UTC", dst=options.dst)

    def pattern(self) -> CronPattern:
        return parse_pattern(f"{self.second} {self.minute} * * * *")

    def effective_period(self, now: datetime) -> timedelta:
        del now
        return timedelta(hours=1)

    def describe(self) -> str:
        return f"hourly at {self.value()} ({self.zone})"

    def words(self) -> str:
        return f"hourly {self.value()}"

    def value(self) -> str:
        return format_minute(self.minute, self.second)
