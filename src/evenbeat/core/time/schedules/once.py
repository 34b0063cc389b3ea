"""Once, at an instant."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.instants import check_instant, format_instant, read_datetime
from evenbeat.core.time.schedules.base.schedule import RuleOptions, Schedule
from evenbeat.core.time.schedules.base.wall_clock import take_zone
from evenbeat.core.time.schedules.base.zones import check_zone, wall_to_instant

FIELD = "schedule.once"


@dataclass(frozen=True, slots=True)
class Once(Schedule):
    """One beat."""

    at: datetime

    kind: ClassVar[str] = "once"
    allows: ClassVar[frozenset[str]] = frozenset({"zone"})
    is_recurring: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", check_instant(self.at, FIELD))

    @classmethod
    def from_words(cls, words: Sequence[str], options: RuleOptions) -> Self:
        rest = list(words)
        if not rest:
            raise InvalidInput(FIELD, 'write for example "once 2026-12-01T08:00:00Z"')
        at = rest.pop(0)
        zone = take_zone(rest, options) if rest else options.zone
        if rest:
            raise InvalidInput(FIELD, 'write for example "once 2026-12-01T08:00:00Z"')
        return cls.from_value(at, RuleOptions(zone=zone))

    @classmethod
    def from_value(cls, value: Any, options: RuleOptions) -> Self:
        at = read_datetime(value, FIELD)
        if options.zone is None:
            return cls(at)
        zone = check_zone(options.zone)
        if at.tzinfo is not None:
            raise InvalidInput("schedule.zone", "the instant has an offset already")
        # The zone is looked up around the wall-clock time, so that must be near the centuries
        # of the table; the instant itself is checked again.
        if not 1999 <= at.year <= 2200:
            raise InvalidInput(FIELD, "must lie between 2000-01-01 and 2200-01-01")
        return cls(wall_to_instant(at, zone))

    def _next_after(self, instant: datetime) -> datetime | None:
        return self.at if self.at > instant else None

    def describe(self) -> str:
        return f"once at {format_instant(self.at)}"

    def words(self) -> str:
        return f"once {self.value()}"

    def value(self) -> str:
        return format_instant(self.at)
