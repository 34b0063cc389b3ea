"""Timetables: a schedule within its bounds and its window, which is when a job really beats."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Self, cast

from evenbeat.core.errors import InvalidInput
from evenbeat.core.limits import MAX_BEATS, MAX_RUNS
from evenbeat.core.time.durations import (
    DurationLimits,
    describe_duration,
    format_duration,
    parse_duration,
)
from evenbeat.core.time.phase import ChosenPhase, find_delay, with_phase
from evenbeat.core.time.schedules.base.instants import (
    AFTER_LAST,
    BEFORE_FIRST,
    EPOCH,
    FIRST_INSTANT,
    LAST_INSTANT,
    RESOLUTION,
    as_utc,
    check_instant,
    format_instant,
    read_instant,
)
from evenbeat.core.time.schedules.base.schedule import Schedule, parse_schedule_object
from evenbeat.core.time.schedules.base.window import Window
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.windowed_beats import find_first_beat_in_window

SAMPLE = 100
SLACK_LIMITS = DurationLimits(shortest=timedelta(seconds=1), longest=timedelta(days=1))
FIELDS = (
    *("schedule", "starts_at", "ends_at", "max_runs", "window", "within", "prefers", "balance"),
    "place",
)


@dataclass(frozen=True, slots=True)
class TimetableBounds:
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
        return self.ends_at or AFTER_LAST

    @property
    def before_first(self) -> datetime:
        return BEFORE_FIRST if self.starts_at is None else self.starts_at - RESOLUTION

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
class BeatsInPeriod:
    """The first beats of a period, and how many there are: at least so many, if not exact."""

    instants: tuple[datetime, ...]
    total: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a job beats: a schedule's beats, within bounds, moved or skipped by a window.

    What balancing may do about it: put a beat off by up to `within`, rather have it at the times
    that it `prefers`, or with `balance` false nothing at all. `place` is what was decided.
    """

    schedule: Schedule
    bounds: TimetableBounds = TimetableBounds()
    window: Window | None = None
    within: timedelta | None = None
    prefers: Window | None = None
    balance: bool = True
    place: ChosenPhase | None = None
    # The schedule at its phase, and at the phase before: made once, and used after every run.
    _rhythm: Schedule = field(init=False, compare=False, repr=False)
    _former: Schedule = field(init=False, compare=False, repr=False)
    # How long after the instants that the schedule names the job beats.
    delay: timedelta = field(init=False, compare=False, repr=False)
    # Nothing stands between the schedule and the beats of the job, as with most jobs.
    _is_plain: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._check_slack()
        place = self.place
        for name, phase in (
            ("_rhythm", place and place.phase),
            ("_former", place and place.before),
        ):
            object.__setattr__(self, name, with_phase(self.schedule, phase))
        object.__setattr__(self, "delay", find_delay(self.schedule, place and place.phase))
        is_moved = bool(self.delay) or (place is not None and place.until is not None)
        is_bounded = self.bounds != TimetableBounds() or self.window is not None
        object.__setattr__(self, "_is_plain", not is_moved and not is_bounded)
        if self.window is None or self.window.outside != "skip" or not self.is_definite:
            return
        start = self.bounds.first
        if isinstance(self.schedule, Once):
            start = self.schedule.at
        if self._next(start - RESOLUTION) is None:
            raise InvalidInput("window", "no beat of the schedule ever falls into it")

    def _check_slack(self) -> None:
        if self.within is None:
            return
        if isinstance(self.schedule, Every) or not self.schedule.is_recurring:
            raise InvalidInput(
                "within", "is for schedules that name their instants again and again, such as daily"
            )
        if self.window is not None:
            raise InvalidInput("within", "cannot be kept together with a window: give one of them")

    @property
    def is_definite(self) -> bool:
        """Whether the beats are known, with nothing left to decide."""
        return self._rhythm.is_definite

    @property
    def is_free(self) -> bool:
        """Whether balancing may choose where the beats go.

        An interval that says by itself where it begins is not; a schedule that names instants is
        as far as its slack goes.
        """
        if not self.balance:
            return False
        if not isinstance(self.schedule, Every):
            return self.within is not None
        return self.schedule.phase is None and self.bounds.starts_at is None

    @property
    def phase(self) -> timedelta | None:
        """The phase of an interval, written or chosen; None before it is planned."""
        return self._rhythm.phase if isinstance(self._rhythm, Every) else None

    def planned_at(self, instant: datetime) -> Self:
        """This timetable with everything decided: an interval starts where the bounds do."""
        if not isinstance(self.schedule, Every):
            planned = self.schedule.planned_at(instant)
            return self if planned is self.schedule else replace(self, schedule=planned)
        if self.is_definite:
            return self
        start = max(as_utc(instant), self.bounds.first)
        return replace(self, place=ChosenPhase((start - EPOCH) % self.schedule.interval))

    def at_phase(self, phase: timedelta) -> Self:
        """This timetable at another phase, for a job that has not beaten yet."""
        return replace(self, place=ChosenPhase(phase))

    def at_phase_from(self, phase: timedelta, until: datetime) -> Self:
        """This timetable at another phase from its beat at `until` on."""
        before = self.place.phase if self.place else timedelta(0)
        return replace(self, place=ChosenPhase(phase, before, until))

    def seeded(self, name: str) -> Self:
        return replace(self, schedule=self.schedule.seeded(name))

    def next_after(self, instant: datetime, runs_so_far: int = 0) -> datetime | None:
        """The smallest beat strictly later, None if there is none or the runs are used up."""
        if self._is_plain:
            return self._rhythm.next_after(instant)
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
    ) -> BeatsInPeriod:
        """The beats later than the start and not later than the end: the first `cap` of them."""
        wanted = min(_checked(cap, "cap"), self.bounds.runs_left(runs_so_far))
        instants: list[datetime] = []
        for beat in self._beats(start):
            if beat > end:
                return BeatsInPeriod(tuple(instants), len(instants), is_exact=True)
            if len(instants) == wanted:
                return self._more_than(instants, start, end, runs_so_far)
            instants.append(beat)
        return BeatsInPeriod(tuple(instants), len(instants), is_exact=True)

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
        slack = f"up to {describe_duration(self.within)} later" if self.within else None
        parts = (self.schedule.describe(), slack, window, self.bounds.describe())
        return "; ".join(filter(None, parts))

    def to_object(self) -> dict[str, Any]:
        written: dict[str, Any] = {"schedule": self.schedule.to_object()}
        for name in ("starts_at", "ends_at"):
            if (instant := getattr(self.bounds, name)) is not None:
                written[name] = format_instant(instant)
        if self.bounds.max_runs is not None:
            written["max_runs"] = self.bounds.max_runs
        for name in ("window", "prefers", "place"):
            if (value := getattr(self, name)) is not None:
                written[name] = value.to_object()
        if self.within is not None:
            written["within"] = format_duration(self.within)
        if not self.balance:
            written["balance"] = False
        return written

    @classmethod
    def from_object(cls, value: Any) -> Self:
        if not isinstance(value, dict):
            raise InvalidInput("timetable", "must be an object with a schedule")
        given = cast("dict[Any, Any]", value)
        for name in given:
            if name not in FIELDS:
                raise InvalidInput(str(name)[:40], "is not a field of a timetable")
        instants = {
            name: read_instant(given[name], name)
            for name in ("starts_at", "ends_at")
            if given.get(name) is not None
        }
        balance = given.get("balance", True)
        if type(balance) is not bool:
            raise InvalidInput("balance", "must be true or false")
        return cls(
            parse_schedule_object(given.get("schedule")),
            TimetableBounds(**instants, max_runs=given.get("max_runs")),
            balance=balance,
            **{name: read(given[name]) for name, read in _READERS.items() if name in given},
        )

    def _beats(self, instant: datetime) -> Iterator[datetime]:
        beat = self.next_after(instant)
        while beat is not None:
            yield beat
            beat = self.next_after(beat)

    def _next(self, instant: datetime) -> datetime | None:
        place = self.place
        if place is None or place.until is None:
            return self._next_by(self._rhythm, self.delay, instant)
        if instant < place.until:
            beat = self._next_by(self._former, find_delay(self.schedule, place.before), instant)
            if beat is not None and beat < place.until:
                return beat
        since = place.since(self.schedule) - RESOLUTION
        return self._next_by(self._rhythm, self.delay, max(instant, since))

    def _next_by(self, schedule: Schedule, delay: timedelta, instant: datetime) -> datetime | None:
        window, floor = self.window, self.bounds.before_first
        if window is None:
            beat = schedule.next_after(max(instant - delay, floor))
            return None if beat is None else min(beat + delay, LAST_INSTANT)
        if window.outside == "skip":
            return find_first_beat_in_window(schedule, window, max(instant, floor), self.bounds.end)
        # What beat since the window closed waits for the opening, so look back to the closing.
        since = instant if window.is_open(instant) else window.closed_since(instant) - RESOLUTION
        beat = schedule.next_after(max(since, floor))
        if beat is None or window.is_open(beat):
            return beat
        return window.next_opening(beat)

    def count_between(self, start: datetime, end: datetime) -> int | None:
        """How many beats lie after the start and not after the end, if that can be computed."""
        former, rhythm, place = self._former, self._rhythm, self.place
        if self.window is not None or not isinstance(rhythm, Every):
            return None
        low, high = (
            max(start, self.bounds.before_first),
            min(end, self.bounds.end - RESOLUTION),
        )
        if place is None or place.until is None or not isinstance(former, Every):
            return rhythm.count_between(low, high)
        return former.count_between(low, min(high, place.until - RESOLUTION)) + (
            rhythm.count_between(max(low, place.since(self.schedule) - RESOLUTION), high)
        )

    def _more_than(
        self, instants: list[datetime], start: datetime, end: datetime, runs_so_far: int
    ) -> BeatsInPeriod:
        left = self.bounds.runs_left(runs_so_far)
        if len(instants) == left:
            return BeatsInPeriod(tuple(instants), left, is_exact=True)
        total = self.count_between(start, end)
        if total is not None:
            return BeatsInPeriod(tuple(instants), min(total, left), is_exact=True)
        return BeatsInPeriod(tuple(instants), len(instants) + 1, is_exact=False)


def _checked(count: int, field: str) -> int:
    if type(count) is not int or not 0 <= count <= MAX_BEATS:
        raise InvalidInput(field, f"must be a whole number from 0 to {MAX_BEATS}")
    return count


def _read_window(value: Any) -> Window | None:
    return None if value is None else Window.parse(value)


def _read_prefers(value: Any) -> Window | None:
    try:
        return _read_window(value)
    except InvalidInput as error:
        first = error.errors[0]
        field = first.field.replace("window", "prefers", 1)
        raise InvalidInput(field, first.message, more=error.errors[1:]) from None


def _read_within(value: Any) -> timedelta | None:
    return None if value is None else parse_duration(value, "within", SLACK_LIMITS)


def _read_place(value: Any) -> ChosenPhase | None:
    return None if value is None else ChosenPhase.from_object(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "window": _read_window,
    "within": _read_within,
    "prefers": _read_prefers,
    "place": _read_place,
}
