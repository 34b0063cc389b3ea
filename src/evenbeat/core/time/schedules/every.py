"""Every so often, to the second, for ever in step."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from evenbeat.core.errors import InvalidInput
from evenbeat.core.limits import LONGEST_DURATION
from evenbeat.core.time.durations import (
    DurationLimits,
    describe_duration,
    format_duration,
    is_unit,
    parse_duration,
)
from evenbeat.core.time.schedules.base.instants import EPOCH, as_utc
from evenbeat.core.time.schedules.base.schedule import RuleOptions, Schedule

FIELD = "schedule.every"
SHORTEST = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """Beats at epoch + phase + k·interval; without a phase it is not placed yet."""

    interval: timedelta
    phase: timedelta | None = None
    # A beat of it: worked out once, and asked for after every run.
    _anchor: datetime = field(init=False, compare=False, repr=False, default=EPOCH)

    kind: ClassVar[str] = "every"
    allows: ClassVar[frozenset[str]] = frozenset({"phase"})

    def __post_init__(self) -> None:
        if not SHORTEST <= self.interval <= LONGEST_DURATION or self.interval.microseconds:
            raise InvalidInput(FIELD, "must be whole seconds, from 1 second to 10 years")
        if self.phase is not None:
            # One rhythm is one value: phases that differ by whole intervals are the same.
            object.__setattr__(self, "phase", self.phase % self.interval)
            object.__setattr__(self, "_anchor", EPOCH + self.phase)

    @classmethod
    def claims(cls, words: Sequence[str]) -> bool:
        first = words[0]
        is_one_word = len(words) == 1 and (first.startswith("P") or first[:1].isdigit())
        units = words[1::2]
        return is_one_word or (len(words) % 2 == 0 and all(map(is_unit, units)))

    @classmethod
    def from_words(cls, words: Sequence[str], options: RuleOptions) -> Self:
        return cls.from_value(" ".join(words), options)

    @classmethod
    def from_value(cls, value: Any, options: RuleOptions) -> Self:
        return cls(parse_duration(value, FIELD, DurationLimits(shortest=SHORTEST)), options.phase)

    @property
    def is_definite(self) -> bool:
        return self.phase is not None

    def with_phase(self, phase: timedelta) -> Self:
        return replace(self, phase=phase)

    def anchored_at(self, instant: datetime) -> Self:
        """The same interval, with a beat at the instant (and so one an interval later)."""
        return replace(self, phase=as_utc(instant) - EPOCH)

    def planned_at(self, instant: datetime) -> Schedule:
        return self if self.phase is not None else self.anchored_at(instant)

    def _next_after(self, instant: datetime) -> datetime:
        anchor = self._placed()
        # Counting whole intervals from the anchor, instead of adding one to the last beat,
        # keeps the rhythm when a node was down for a week.
        passed = (instant - anchor) // self.interval
        return anchor + (passed + 1) * self.interval

    def count_between(self, start: datetime, end: datetime) -> int:
        """How many beats lie after the start and not after the end, whatever the distance."""
        anchor = self._placed()
        return max(0, (end - anchor) // self.interval - (start - anchor) // self.interval)

    def _placed(self) -> datetime:
        if self.phase is None:
            raise InvalidInput("schedule.phase", "this interval has not been placed yet")
        return self._anchor

    def effective_period(self, now: datetime) -> timedelta:
        del now
        return self.interval

    def describe(self) -> str:
        words = describe_duration(self.interval)
        number, _, unit = words.partition(" ")
        return f"every {unit}" if number == "1" and " " not in unit else f"every {words}"

    def words(self) -> str:
        return f"every {self.value()}"

    def value(self) -> str:
        return format_duration(self.interval)

    def options(self) -> RuleOptions:
        return RuleOptions(phase=self.phase)
