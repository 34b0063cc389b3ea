"""What runs come to: how many went well, how long they take, and whether that is healthy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from statistics import fmean, median, quantiles

from evenbeat.core.jobs.model import RunState, State
from evenbeat.core.jobs.payload import check_text
from evenbeat.core.time.durations import describe_duration

# Fewer runs than this say nothing yet.
LEAST_RUNS = 5
RECENT_RUNS = 50
LEAST_SUCCESS = 0.8
# The newest runs against those before them; the median, since one slow run is no drift.
NEWEST_RUNS = 10
DRIFT = 1.5
LEAST_DRIFT = timedelta(milliseconds=100)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How one run ended and how long it took."""

    state: RunState
    duration: timedelta | None


@dataclass(frozen=True, slots=True)
class Durations:
    """How long completed runs take."""

    average: timedelta
    p50: timedelta
    p95: timedelta
    p99: timedelta
    longest: timedelta


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """What all runs of a job came to; durations are those of the newest runs."""

    completed: int
    failed: int
    cancelled: int
    running: int
    durations: Durations | None
    last_run_at: datetime | None
    next_run_at: datetime | None
    dead_letters: int = 0
    open_dead_letters: int = 0

    @property
    def total(self) -> int:
        return self.completed + self.failed + self.cancelled + self.running

    @property
    def success_rate(self) -> float | None:
        return success_rate(self.completed, self.failed)


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What all runs came to; `failed` includes the lost ones, `time_spent` is of completed ones."""

    completed: int
    failed: int
    lost: int
    cancelled: int
    skipped: int
    time_spent: timedelta

    @property
    def total(self) -> int:
        return self.completed + self.failed + self.cancelled

    @property
    def success_rate(self) -> float | None:
        return success_rate(self.completed, self.failed)

    @property
    def average_duration(self) -> timedelta | None:
        return self.time_spent / self.completed if self.completed else None


@dataclass(frozen=True, slots=True)
class StatisticsScope:
    """What statistics are about: one job, a kind, a group, or everything."""

    job_id: int | None = None
    kind: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        for field in ("kind", "group"):
            if getattr(self, field) is not None:
                check_text(getattr(self, field), field)


EVERY_JOB = StatisticsScope()


@dataclass(frozen=True, slots=True)
class DayStatistics:
    """What the runs that started on a day (UTC) came to; `retried` of them were retries."""

    day: date
    runs: RunCounts
    retried: int = 0


NO_RUNS = RunCounts(0, 0, 0, 0, 0, timedelta(0))


def fill_missing_days(
    days: Sequence[DayStatistics], until: date, count: int
) -> list[DayStatistics]:
    """So many days up to this one, those without a run among them."""
    known = {each.day: each for each in days}
    wanted = (until - timedelta(days=back) for back in reversed(range(count)))
    return [known.get(day, DayStatistics(day, NO_RUNS)) for day in wanted]


class Activity(StrEnum):
    """Where a job stands by a registry's three words."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


# In every other state the job takes part.
_SUSPENDED = {
    State.PAUSED: Activity.PAUSED,
    State.DISABLED: Activity.DISABLED,
    State.CANCELLED: Activity.DISABLED,
}


def activity_of(state: State) -> Activity:
    return _SUSPENDED.get(state, Activity.ACTIVE)


@dataclass(frozen=True, slots=True)
class Overview:
    """What everything comes to: jobs by status, runs by outcome, dead letters, nodes."""

    jobs: Mapping[State, int]
    runs: RunCounts
    dead_letters: int
    open_dead_letters: int
    live_nodes: int
    # When any node was last heard of.
    last_seen_at: datetime | None
    at: datetime

    @property
    def activity(self) -> dict[Activity, int]:
        """Jobs by a registry's three words."""
        counts = dict.fromkeys(Activity, 0)
        for state, count in self.jobs.items():
            counts[activity_of(state)] += count
        return counts


class HealthCondition(StrEnum):
    """Whether a job needs the attention of a person."""

    OK = "ok"
    WARNING = "warning"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Health:
    """A job's condition, and what is wrong with it in words."""

    condition: HealthCondition
    reasons: tuple[str, ...] = ()


def success_rate(completed: int, failed: int) -> float | None:
    """Completed of those that ran to an end; None before the first one did."""
    return completed / (completed + failed) if completed + failed else None


def durations_of(endings: Sequence[RunEnding]) -> Durations | None:
    taken = _taken(endings)
    if not taken:
        return None
    marks = quantiles(taken, n=100, method="inclusive") if len(taken) > 1 else taken * 99
    p50, p95, p99 = (timedelta(seconds=marks[at - 1]) for at in (50, 95, 99))
    return Durations(
        average=timedelta(seconds=fmean(taken)),
        p50=p50,
        p95=p95,
        p99=p99,
        longest=timedelta(seconds=max(taken)),
    )


def assess_health(newest_first: Sequence[RunEnding]) -> Health:
    """The condition of a job by its newest runs."""
    recent = newest_first[:RECENT_RUNS]
    ended = [each for each in recent if each.state in (RunState.COMPLETED, RunState.FAILED)]
    if len(ended) < LEAST_RUNS:
        return Health(HealthCondition.UNKNOWN)
    reasons = tuple(filter(None, (_failing(ended), _drifting(recent))))
    return Health(HealthCondition.WARNING if reasons else HealthCondition.OK, reasons)


def _failing(ended: Sequence[RunEnding]) -> str | None:
    completed = sum(each.state is RunState.COMPLETED for each in ended)
    rate = completed / len(ended)
    if rate >= LEAST_SUCCESS:
        return None
    return (
        f"{completed} of the last {len(ended)} runs completed: "
        f"{rate:.0%} is less than {LEAST_SUCCESS:.0%}"
    )


def _drifting(recent: Sequence[RunEnding]) -> str | None:
    taken = _taken(recent)
    newest, before = taken[:NEWEST_RUNS], taken[NEWEST_RUNS:]
    if len(newest) < NEWEST_RUNS or len(before) < NEWEST_RUNS:
        return None
    now, then = median(newest), median(before)
    if now <= then * DRIFT or now - then <= LEAST_DRIFT / _SECOND:
        return None
    words = (describe_duration(timedelta(milliseconds=round(each * 1000))) for each in (now, then))
    return "runs take {} lately, and took {} before".format(*words)


def _taken(endings: Sequence[RunEnding]) -> list[float]:
    """Seconds of those that completed."""
    return [
        each.duration / _SECOND
        for each in endings
        if each.state is RunState.COMPLETED and each.duration is not None
    ]
