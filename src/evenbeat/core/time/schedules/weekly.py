"""Every week, at a day and a time of day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any, ClassVar, Self

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import check_plain_text
from evenbeat.core.time.schedules.base.cron_pattern import CronPattern, parse_pattern
from evenbeat.core.time.schedules.base.schedule import RuleOptions
from evenbeat.core.time.schedules.base.times_of_day import (
    DAYS,
    check_time,
    day_word,
    format_time,
    is_day,
    read_day,
    read_time,
)
from evenbeat.core.time.schedules.base.wall_clock import WallClock, take_zone

FIELD = "schedule.weekly"


@dataclass(frozen=True, slots=True)
class Weekly(WallClock):
    """Beats once a week; today counts if the time is still ahead."""

    day: str
    at: time

    kind: ClassVar[str] = "weekly"

    def __post_init__(self) -> None:
        WallClock.__post_init__(self)
        if self.day not in DAYS:
            raise InvalidInput(FIELD, "the day must be one of " + " ".join(DAYS))
        check_time(self.at, FIELD)

    @classmethod
    def claims(cls, words: Sequence[str]) -> bool:
        return is_day(words[0])

    @classmethod
    def from_words(cls, words: Sequence[str], options: RuleOptions) -> Self:
        day, at, rest = "".join(words[:1]), "".join(words[1:2]), list(words[2:])
        zone = take_zone(rest, options)
        if not at or rest:
            raise InvalidInput(FIELD, 'write for example "sun 02:00 Europe/Berlin"')
        return cls(read_day(day, FIELD), read_time(at, FIELD), zone=zone, dst=options.dst)

    @classmethod
    def from_value(cls, value: Any, options: RuleOptions) -> Self:
        words = check_plain_text(value, FIELD).split()
        if len(words) != 2:
            raise InvalidInput(FIELD, 'write for example "sun 02:00"')
        day, at = read_day(words[0], FIELD), read_time(words[1], FIELD)
        return cls(day, at, zone=options.zone or "UTC", dst=options.dst)

    def pattern(self) -> CronPattern:
        at = self.at
        return parse_pattern(f"{at.second} {at.minute} {at.hour} * * {self.day.upper()}")

    def effective_period(self, now: datetime) -> timedelta:
        del now
        return timedelta(weeks=1)

    def describe(self) -> str:
        return f"weekly on {day_word(self.day)} at {format_time(self.at)} ({self.zone})"

    def words(self) -> str:
        return f"weekly {self.value()}"

    def value(self) -> str:
        return f"{self.day} {format_time(self.at)}"
