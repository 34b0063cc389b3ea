"""Statistics as clients see them."""

from datetime import date, datetime, timedelta
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from evenbeat.api.v1.wire.text_types import Name
from evenbeat.core.jobs.model import State
from evenbeat.core.limits import MOST_DAYS_SHOWN
from evenbeat.core.ops.statistics import (
    Activity,
    DayStatistics,
    JobStatistics,
    Overview,
    RunCounts,
    StatisticsScope,
)

MILLISECOND = timedelta(milliseconds=1)


class DeadLetterCountsOut(BaseModel):
    """Beats that ran out of attempts."""

    total: int
    unacknowledged: int


class JobStatsOut(BaseModel):
    """Statistics of the runs of a job; durations are those of its newest completed runs."""

    total_executions: int
    successful_runs: int
    failed_runs: int
    cancelled_runs: int
    average_duration_ms: int | None
    p50_duration_ms: int | None
    p95_duration_ms: int | None
    p99_duration_ms: int | None
    longest_duration_ms: int | None
    last_execution_at: datetime | None
    next_scheduled_at: datetime | None
    success_rate: float | None
    dead_letters: DeadLetterCountsOut

    @classmethod
    def from_core(cls, counted: JobStatistics) -> Self:
        taken = counted.durations
        return cls(
            total_executions=counted.total,
            successful_runs=counted.completed,
            failed_runs=counted.failed,
            cancelled_runs=counted.cancelled,
            average_duration_ms=milliseconds(taken and taken.average),
            p50_duration_ms=milliseconds(taken and taken.p50),
            p95_duration_ms=milliseconds(taken and taken.p95),
            p99_duration_ms=milliseconds(taken and taken.p99),
            longest_duration_ms=milliseconds(taken and taken.longest),
            last_execution_at=counted.last_run_at,
            next_scheduled_at=counted.next_run_at,
            success_rate=counted.success_rate,
            dead_letters=DeadLetterCountsOut(
                total=counted.dead_letters, unacknowledged=counted.open_dead_letters
            ),
        )


class RunCountsOut(BaseModel):
    """Counts of all runs."""

    total: int
    completed: int
    failed: int
    lost: int
    cancelled: int
    skipped: int
    average_duration_ms: int | None
    success_rate: float | None

    @classmethod
    def from_core(cls, runs: RunCounts) -> Self:
        return cls(
            total=runs.total,
            completed=runs.completed,
            failed=runs.failed,
            lost=runs.lost,
            cancelled=runs.cancelled,
            skipped=runs.skipped,
            average_duration_ms=milliseconds(runs.average_duration),
            success_rate=runs.success_rate,
        )


class StatsOut(BaseModel):
    """Statistics of everything, or of a kind or a group."""

    jobs: dict[State, int]
    activity: dict[Activity, int]
    runs: RunCountsOut
    dead_letters: DeadLetterCountsOut
    live_nodes: int
    at: datetime

    @classmethod
    def from_core(cls, overview: Overview) -> Self:
        return cls(
            jobs=dict(overview.jobs),
            activity=overview.activity,
            runs=RunCountsOut.from_core(overview.runs),
            dead_letters=DeadLetterCountsOut(
                total=overview.dead_letters, unacknowledged=overview.open_dead_letters
            ),
            live_nodes=overview.live_nodes,
            at=overview.at,
        )


class DayOut(RunCountsOut):
    """Statistics of the runs that started on one day (UTC)."""

    day: date
    retried: int

    @classmethod
    def from_day(cls, day: DayStatistics) -> Self:
        runs = RunCountsOut.from_core(day.runs).model_dump()
        return cls(day=day.day, retried=day.retried, **runs)


class TrendOut(BaseModel):
    """Statistics of each of the last days; today is the last."""

    days: list[DayOut]

    @classmethod
    def from_core(cls, days: list[DayStatistics]) -> Self:
        return cls(days=[DayOut.from_day(day) for day in days])


class ScopeIn(BaseModel):
    """Of which jobs: of a kind, of a group, of both, or of all."""

    model_config = ConfigDict(extra="forbid")

    kind: Name | None = None
    group: Name | None = None

    def to_core(self) -> StatisticsScope:
        return StatisticsScope(kind=self.kind, group=self.group)


class TrendIn(ScopeIn):
    """Of which jobs, and how many days back."""

    days: Annotated[int, Field(ge=1, le=MOST_DAYS_SHOWN)] = 30


class JobCountsOut(BaseModel):
    """How many jobs there are of each status."""

    pending: int
    scheduled: int
    running: int
    paused: int
    completed: int
    failed: int
    cancelled: int
    disabled: int


class ExecutionCountsOut(BaseModel):
    """Counts of all runs, in the interval scheduler's words."""

    total: int
    average_duration_ms: int | None
    success_rate: float | None


class SchedulerMetricsOut(BaseModel):
    """The scheduler as the interval scheduler's clients know it, of the whole cluster."""

    jobs: JobCountsOut
    executions: ExecutionCountsOut
    last_check_at: datetime | None
    last_metrics_update: datetime
    stale_locks_cleared: int

    @classmethod
    def from_core(cls, overview: Overview) -> Self:
        counts = {name: overview.jobs.get(State(name), 0) for name in JobCountsOut.model_fields}
        running = counts["running"]
        return cls(
            jobs=JobCountsOut(**counts),
            executions=ExecutionCountsOut(
                total=overview.runs.total + running,
                average_duration_ms=milliseconds(overview.runs.average_duration),
                success_rate=overview.runs.success_rate,
            ),
            last_check_at=overview.last_seen_at,
            last_metrics_update=overview.at,
            stale_locks_cleared=overview.runs.lost,
        )


def milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // MILLISECOND
