"""Timetables: a schedule within its bounds and its window, which is when a job really beats."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Self, cast

from evenbeat.core.coincidence import first_inside
from evenbeat.core.errors import InvalidInput
from evenbeat.core.schedules.clockwork.instants import (
    FIRST_INSTANT,
    LAST_INSTANT,
    RESOLUTION,
    as_utc,
    check_instant,
    format_instant,
    read_instant,
)
from evenbeat.core.schedules.clockwork.reading import parse_object
from evenbeat.core.schedules.clockwork.schedule import Schedule
from evenbeat.core.schedules.clockwork.window import Window
from evenbeat.core.schedules.every import Every
from evenbeat.core.schedules.once import Once

MAX_RUNS = 1_000_000_000
MAX_BEATS = 10_000
"""How many beats may be listed at once."""

SAMPLE = 100


@dataclass(frozen=True, slots=True)
class Bounds:
    """From when on (inclusive) and until when (exclusive) beats exist, and how many runs in all."""

    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None

    def __post_init__(self) -> None:
        for name in ("starts_at", "ends_at"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_instant(getattr(self, name), name))
        if self.starts_at and self.ends_at and self.starts_at >= self.ends_at:
            raise InvalidInput("ends_at", "must be later than starts_at")
        runs = self.max_runs
        if runs is not None and (type(runs) is not int or not 1 <= runs <= MAX_RUNS):
            raise InvalidInput("max_runs", f"must be a whole number from 1 to {MAX_RUNS}")

    @property
    def first(self) -> datetime:
        return self.starts_at or FIRST_INSTANT

    @property
    def end(self) -> datetime:
        return self.ends_at or LAST_INSTANT + RESOLUTION

    def runs_left(self, runs_so_far: int) -> int:
        return max(0, (self.max_runs or MAX_RUNS) - runs_so_far)

    def describe(self) -> str:
        return "; ".join(
            text.format(value)
            for text, value in (
                ("from {}", self.starts_at and format_instant(self.starts_at)),
                ("until {}", self.ends_at and format_instant(self.ends_at)),
                ("{} in all", self.max_runs and f"{self.max_runs} run{'s'[: self.max_runs - 1]}"),
            )
            if value
        )


@dataclass(frozen=True, slots=True)
class Beats:
    """The first beats of a period, and how many there are: at least so many, if not exact."""

    instants: tuple[datetime, ...]
    total: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a job beats: a schedule's beats, within bounds, moved or skipped by a window."""

    schedule: Schedule
    bounds: Bounds = Bounds()
    window: Window | None = None

    def __post_init__(self) -> None:
        if self.window is None or self.window.outside != "skip" or not self.schedule.is_definite:
            return
        start = self.bounds.first
        if isinstance(self.schedule, Once):
            start = self.schedule.at
        if self._next(start - RESOLUTION) is None:
            raise InvalidInput("window", "no beat of the schedule ever falls into it")

    def planned_at(self, instant: datetime) -> Self:
        """This timetable with its schedule planned: an interval starts where the bounds do."""
        start = max(as_utc(instant), self.bounds.first)
        if isinstance(self.schedule, Every) and start > instant:
            return replace(self, schedule=self.schedule.planned_at(start))
        return replace(self, schedule=self.schedule.planned_at(instant))

    def seeded(self, name: str) -> Self:
        return replace(self, schedule=self.schedule.seeded(name))

    def next_after(self, instant: datetime, runs_so_far: int = 0) -> datetime | None:
        """The smallest beat strictly later, None if there is none or the runs are used up."""
        if not self.bounds.runs_left(runs_so_far):
            return None
        beat = self._next(as_utc(instant))
        return None if beat is None or beat >= self.bounds.end else beat

    def next_beats(
        self, instant: datetime, count: int, runs_so_far: int = 0
    ) -> tuple[datetime, ...]:
        """The next beats, at most so many."""
        wanted = min(_checked(count, "count"), self.bounds.runs_left(runs_so_far))
        return tuple(islice(self._beats(instant), wanted))

    def beats_between(
        self, start: datetime, end: datetime, cap: int, runs_so_far: int = 0
    ) -> Beats:
        """The beats later than the start and not later than the end: the first `cap` of them."""
        wanted = min(_checked(cap, "cap"), self.bounds.runs_left(runs_so_far))
        instants: list[datetime] = []
        for beat in self._beats(start):
            if beat > end:
                return Beats(tuple(instants), len(instants), is_exact=True)
            if len(instants) == wanted:
                return self._more_than(instants, start, end, runs_so_far)
            instants.append(beat)
        return Beats(tuple(instants), len(instants), is_exact=True)

    def latest_between(self, start: datetime, end: datetime) -> datetime | None:
        """The last beat later than the start and not later than the end, in a few dozen steps."""
        first = self.next_after(start)
        if first is None or first > end:
            return None
        # A beat follows `low` and is not later than the end; none follows `high`.
        low, high = start, end
        while high - low > RESOLUTION:
            middle = low + (high - low) // 2
            beat = self.next_after(middle)
            if beat is None or beat > end:
                high = middle
            else:
                low, first = middle, beat
                if (following := self.next_after(beat)) is None or following > end:
                    return beat
        return first

    def effective_period(self, now: datetime) -> timedelta | None:
        """The average distance of the beats to come, sampled where a window changes them."""
        if not self.schedule.is_recurring:
            return None
        if self.window is None:
            return self.schedule.effective_period(now)
        beats = self.next_beats(now, SAMPLE)
        return (beats[-1] - beats[0]) / (len(beats) - 1) if len(beats) > 1 else None

    def describe(self) -> str:
        window = self.window and self.window.describe()
        return "; ".join(filter(None, (self.schedule.describe(), window, self.bounds.describe())))

    def to_object(self) -> dict[str, Any]:
        written: dict[str, Any] = {"schedule": self.schedule.to_object()}
        for name in ("starts_at", "ends_at"):
            if (instant := getattr(self.bounds, name)) is not None:
                written[name] = format_instant(instant)
        if self.bounds.max_runs is not None:
            written["max_runs"] = self.bounds.max_runs
        if self.window is not None:
            written["window"] = self.window.to_object()
        return written

    @classmethod
    def from_object(cls, value: Any) -> Self:
        if not isinstance(value, dict):
            raise InvalidInput("timetable", "must be an object with a schedule")
        given = cast("dict[Any, Any]", value)
        for name in given:
            if name not in ("schedule", "starts_at", "ends_at", "max_runs", "window"):
                raise InvalidInput(str(name)[:40], "is not a field of a timetable")
        instants = {
            name: read_instant(given[name], name)
            for name in ("starts_at", "ends_at")
            if given.get(name) is not None
        }
        window = given.get("window")
        return cls(
            parse_object(given.get("schedule")),
            Bounds(**instants, max_runs=given.get("max_runs")),
            None if window is None else Window.parse(window),
        )

    def _beats(self, instant: datetime) -> Iterator[datetime]:
        beat = self.next_after(instant)
        while beat is not None:
            yield beat
            beat = self.next_after(beat)

    def _next(self, instant: datetime) -> datetime | None:
        window, floor = self.window, self.bounds.first - RESOLUTION
        if window is None:
            return self.schedule.next_after(max(instant, floor))
        if window.outside == "skip":
            return first_inside(self.schedule, window, max(instant, floor), self.bounds.end)
        # What beat since the window closed waits for the opening, so look back to the closing.
        since = instant if window.is_open(instant) else window.closed_since(instant) - RESOLUTION
        beat = self.schedule.next_after(max(since, floor))
        if beat is None or window.is_open(beat):
            return beat
        return window.next_opening(beat)

    def _more_than(
        self, instants: list[datetime], start: datetime, end: datetime, runs_so_far: int
    ) -> Beats:
        left = self.bounds.runs_left(runs_so_far)
        if len(instants) == left:
            return Beats(tuple(instants), left, is_exact=True)
        if self.window is None and isinstance(self.schedule, Every):
            low = max(start, self.bounds.first - RESOLUTION)
            total = self.schedule.count_between(low, min(end, self.bounds.end - RESOLUTION))
            return Beats(tuple(instants), min(total, left), is_exact=True)
        return Beats(tuple(instants), len(instants) + 1, is_exact=False)


def _checked(count: int, field: str) -> int:
    if type(count) is not int or not 0 <= count <= MAX_BEATS:
        raise InvalidInput(field, f"must be a whole number from 0 to {MAX_BEATS}")
    return count
