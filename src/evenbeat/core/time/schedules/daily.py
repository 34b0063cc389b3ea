"""Every day, at a time of day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any, ClassVar, Self

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.cron_pattern import CronPattern, parse_pattern
from evenbeat.core.time.schedules.base.schedule import RuleOptions
from evenbeat.core.time.schedules.base.times_of_day import check_time, format_time, read_time
from evenbeat.core.time.schedules.base.wall_clock import WallClock, take_zone

FIELD = "schedule.daily"


@dataclass(frozen=True, slots=True)
class Daily(WallClock):
    """Beats once a day."""

    at: time

    kind: ClassVar[str] = "daily"

    def __post_init__(self) -> None:
        WallClock.__post_init__(self)
        check_time(self.at, FIELD)

    @classmethod
    def from_words(cls, words: Sequence[str], options: RuleOptions) -> Self:
        rest = list(words)
        at = rest.pop(0) if rest else ""
        zone = take_zone(rest, options)
        if not at or rest:
            raise InvalidInput(FIELD, 'write for example "daily 06:00 Europe/Berlin"')
        return cls(read_time(at, FIELD), zone=zone, dst=options.dst)

    @classmethod
    def from_value(cls, value: Any, options: RuleOptions) -> Self:
        return cls(read_time(value, FIELD), zone=options.zone or "UTC", dst=options.dst)

    def pattern(self) -> CronPattern:
        return parse_pattern(f"{self.at.second} {self.at.minute} {self.at.hour} * * *")

    def effective_period(self, now: datetime) -> timedelta:
        del now
        return timedelta(days=1)

    def describe(self) -> str:
        return f"daily at {self.value()} ({self.zone})"

    def words(self) -> str:
        return f"daily {self.value()}"

    def value(self) -> str:
        return format_time(self.at)
