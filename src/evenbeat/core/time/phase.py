"""Phases: where in its interval a job beats, or how far within its slack it is put off."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self, cast

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import EXACT_DURATION, format_duration, parse_duration
from evenbeat.core.time.schedules.base.instants import (
    FIRST_INSTANT,
    check_instant,
    format_instant,
    read_instant,
)
from evenbeat.core.time.schedules.base.schedule import Schedule
from evenbeat.core.time.schedules.every import Every

FIELD = "place"
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ChosenPhase:
    """The phase that planning or balancing chose, where the schedule leaves it open.

    Of an interval, `phase` is its phase; of any other schedule, how long after the instants that it
    names the job beats. Beats before `until` are still those of the phase `before`: the one at
    `until` is the first that moves: to the nearest beat of the new phase, or to `then` where it was
    moved again before it came.
    """

    phase: timedelta
    before: timedelta | None = None
    until: datetime | None = None
    then: datetime | None = None

    def __post_init__(self) -> None:
        if (self.before is None) != (self.until is None):
            raise InvalidInput(FIELD, "has both before and until, or neither")
        if self.then is not None and self.until is None:
            raise InvalidInput(FIELD, "has then only with until")
        for name in ("until", "then"):
            if (instant := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_instant(instant, f"{FIELD}.{name}"))

    def since(self, schedule: Schedule) -> datetime:
        """When the beat comes that would have come at `until`."""
        if self.before is None or self.until is None:
            return FIRST_INSTANT
        if self.then is not None:
            return self.then
        shift = self.phase - self.before
        if isinstance(schedule, Every):
            # The nearest beat of the new phase: half an interval away at most.
            half = schedule.interval // _SECOND // 2 * _SECOND
            shift = (shift + half) % schedule.interval - half
        return self.until + shift

    def to_object(self) -> dict[str, Any]:
        written: dict[str, Any] = {"phase": format_duration(self.phase)}
        if self.before is not None and self.until is not None:
            written["before"] = format_duration(self.before)
            written["until"] = format_instant(self.until)
        if self.then is not None:
            written["then"] = format_instant(self.then)
        return written

    @classmethod
    def from_object(cls, value: Any) -> Self:
        if not isinstance(value, dict):
            raise InvalidInput(FIELD, "must be an object with a phase")
        given = cast("dict[str, Any]", value)
        before, until, then = given.get("before"), given.get("until"), given.get("then")
        return cls(
            parse_duration(given.get("phase"), f"{FIELD}.phase", EXACT_DURATION),
            None if before is None else parse_duration(before, f"{FIELD}.before", EXACT_DURATION),
            None if until is None else read_instant(until, f"{FIELD}.until"),
            None if then is None else read_instant(then, f"{FIELD}.then"),
        )


def with_phase(schedule: Schedule, phase: timedelta | None) -> Schedule:
    """The schedule with this phase, if it is an interval that has none of its own."""
    if phase is None or not isinstance(schedule, Every) or schedule.phase is not None:
        return schedule
    return schedule.with_phase(phase)


def find_delay(schedule: Schedule, phase: timedelta | None) -> timedelta:
    """How long after the instants that the schedule names the job beats."""
    return timedelta(0) if phase is None or isinstance(schedule, Every) else phase
