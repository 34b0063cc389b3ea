"""What the kinds share whose beats are times on a wall clock."""

from abc import abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.cron_pattern import CronPattern, next_beat
from evenbeat.core.time.schedules.base.schedule import RuleOptions, Schedule
from evenbeat.core.time.schedules.base.zones import Dst, check_zone


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock(Schedule):
    """Beats whenever the clocks of a zone show a time of a pattern.

    Without `dst`, Debian's rule decides: fixed times happen once on every day that has them, right
    after the leap if the clock leaps over them; patterns with a wildcard hour or minute follow
    elapsed time. With `dst`, what it says holds for any pattern.
    """

    zone: str = "UTC"
    dst: Dst | None = None

    allows: ClassVar[frozenset[str]] = frozenset({"zone", "dst"})

    def __post_init__(self) -> None:
        check_zone(self.zone)

    @abstractmethod
    def pattern(self) -> CronPattern:
        """The times on the wall clock."""

    def _next_after(self, instant: datetime) -> datetime | None:
        pattern = self.pattern()
        return next_beat(instant, pattern, self.zone, self.dst or pattern.dst)

    def options(self) -> RuleOptions:
        return RuleOptions(zone=self.zone, dst=self.dst)


def take_zone(words: list[str], options: RuleOptions) -> str:
    """The zone of a text: the last word, unless an option names it."""
    if not words:
        return "UTC" if options.zone is None else options.zone
    if options.zone is not None:
        raise InvalidInput("schedule.zone", f"is given twice: {words[-1]} and {options.zone}")
    return words.pop()
