"""The values of balancing: what a job asks of the week, where it goes, and what moves.

Lengths are whole seconds and end in `_s`: a week of a million jobs is arithmetic, not objects.
Instants are aware datetimes, as everywhere.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.instants import EPOCH, as_utc
from evenbeat.core.time.schedules.base.window import Window

MINUTE_S = 60
SLOT_S = 900
HOUR_S = 3_600
DAY_S = 86_400
WEEK_S = 604_800

WEEK_SLOTS = WEEK_S // SLOT_S
WEEK_MINUTES = WEEK_S // MINUTE_S

UNKNOWN_COST_S = 1
"""How long a run is expected to last when none has been seen yet."""

LONGEST_COST_S = DAY_S
"""What lasts longer than a day is there at every hour, wherever it starts."""


def seconds_of(instant: datetime) -> int:
    """Whole seconds since the epoch, rounded down."""
    return (as_utc(instant) - EPOCH) // timedelta(seconds=1)


def instant_of(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=int(seconds))


def slot_of(instant: datetime) -> datetime:
    """The beginning of its quarter of an hour."""
    return instant_of(seconds_of(instant) // SLOT_S * SLOT_S)


@dataclass(frozen=True, slots=True)
class JobLoad:
    """What one job asks of the coming week.

    Either an interval with its phase (beats at epoch + phase + k·interval; no phase means it is
    not placed yet), or pinned: the instants of the coming week at which its schedule beats, each
    put off by `phase_s`, which may be anything up to `within_s`.
    """

    job: int
    interval_s: int = 0
    phase_s: int | None = None
    cost_s: int = UNKNOWN_COST_S
    pinned_at: tuple[int, ...] = ()
    within_s: int = 0
    window: Window | None = None
    prefers: Window | None = None
    # A person chose where it is: it counts and never moves.
    is_fixed: bool = False

    def __post_init__(self) -> None:
        if self.interval_s < 0 or self.within_s < 0:
            raise InvalidInput("interval_s", "an interval or a slack cannot be negative")
        if self.interval_s and (self.pinned_at or self.within_s):
            raise InvalidInput("pinned_at", "a job has an interval or is pinned, not both")
        if not self.interval_s and not 0 <= (self.phase_s or 0) <= self.within_s:
            raise InvalidInput("phase_s", "a pinned job may be put off by its slack at most")
        if self.interval_s and self.phase_s is not None:
            object.__setattr__(self, "phase_s", self.phase_s % self.interval_s)
        cost = min(max(UNKNOWN_COST_S, round(self.cost_s)), LONGEST_COST_S)
        object.__setattr__(self, "cost_s", cost)

    @property
    def is_pinned(self) -> bool:
        return not self.interval_s

    @property
    def has_slack(self) -> bool:
        return self.is_pinned and self.within_s > 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job goes; its first beat is in (now, now + interval] unless its window forbids it."""

    job: int
    phase_s: int
    first_at: datetime


class SkipReason(StrEnum):
    """Why a job stays where it is."""

    PINNED = "pinned"
    RUNNING = "job_running"
    PROTECTED = "protection_window"
    COOLING = "placement_cooldown"
    CHANGED = "job_changed"


@dataclass(frozen=True, slots=True)
class MoveGuard:
    """What keeps jobs from being moved about: by default as short as people tolerate.

    A beat within the protection window stays where it is. A job whose phase changed within the
    cooldown stays too; only changes of phase count, not runs.
    """

    protection: timedelta = timedelta(minutes=30)
    cooldown: timedelta = timedelta(hours=1)

    @property
    def short_s(self) -> int:
        """Jobs of such intervals are always about to run: waiting for a quiet moment never ends."""
        return (self.protection + self.cooldown) // timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """How much a rebalance may do.

    Slots may stand above the even level by the tolerance; minutes above the even minute by theirs,
    None to leave minutes alone.
    """

    max_moves: int | None = None
    tolerance: float = 0.02
    minute_tolerance: float | None = 1.0

    def __post_init__(self) -> None:
        if self.max_moves is not None and self.max_moves < 0:
            raise InvalidInput("max_moves", "must not be negative")
        if self.tolerance < 0 or (self.minute_tolerance or 0) < 0:
            raise InvalidInput("tolerance", "must not be negative")


@dataclass(frozen=True, slots=True)
class RebalanceCandidate:
    """A job as a rebalance sees it: its load, and what may keep it where it is."""

    load: JobLoad
    next_beat_at: datetime | None = None
    last_placed_at: datetime | None = None
    is_running: bool = False
    # It was moved, and still beats where it did before.
    is_moving: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """A job's change of phase: the beat at `old_next_at` comes at `new_next_at` instead.

    Beats before `effective_from` stay as they are, so a job that is about to run does so.
    """

    job: int
    old_phase_s: int
    new_phase_s: int
    old_next_at: datetime
    new_next_at: datetime
    effective_from: datetime


@dataclass(frozen=True, slots=True)
class SkippedJob:
    """A job that stays, and why."""

    job: int
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class Score:
    """How even the coming day is: 1 is as even as whole runs allow, 0 is all at once."""

    score: float
    minute_score: float
    peak: int
    peak_over_ideal: float


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """What a rebalance would do, and does: preview and apply are this one value."""

    moves: tuple[Move, ...]
    skipped: tuple[SkippedJob, ...]
    before: Score
    after: Score
    attainable_score: float
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class HourLoad:
    """One of the next 24 hours: how many jobs run in it, and how often."""

    hour: int
    starts_at: datetime
    job_count: int
    runs: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """The operator's view of the next 24 hours."""

    hours: tuple[HourLoad, ...]
    peak_hour: int
    peak_count: int
    total_jobs: int
    score: Score


@dataclass(frozen=True, slots=True)
class SlotForecast:
    """What a slot of the coming week will see; waiting is nought while there are workers enough."""

    starts_at: datetime
    runs: int
    concurrency: float
    peak_concurrency: float
    waiting: timedelta = timedelta(0)
