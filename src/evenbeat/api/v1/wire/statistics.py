"""Statistics as clients see them."""

from datetime import datetime, timedelta
from typing import Self

from pydantic import BaseModel

from evenbeat.core.model import State
from evenbeat.core.statistics import Overview, Statistics

MILLISECOND = timedelta(milliseconds=1)


class JobStatsOut(BaseModel):
    """What the runs of a job came to; durations are those of its newest completed runs."""

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

    @classmethod
    def from_core(cls, counted: Statistics) -> Self:
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
        )


class RunCountsOut(BaseModel):
    """What all runs came to."""

    total: int
    completed: int
    failed: int
    lost: int
    cancelled: int
    skipped: int
    average_duration_ms: int | None
    success_rate: float | None


class DeadLettersOut(BaseModel):
    """Beats that ran out of attempts."""

    total: int
    unacknowledged: int


class StatsOut(BaseModel):
    """What everything comes to."""

    jobs: dict[State, int]
    runs: RunCountsOut
    dead_letters: DeadLettersOut
    live_nodes: int
    at: datetime

    @classmethod
    def from_core(cls, overview: Overview) -> Self:
        runs = overview.runs
        return cls(
            jobs=dict(overview.jobs),
            runs=RunCountsOut(
                total=runs.total,
                completed=runs.completed,
                failed=runs.failed,
                lost=runs.lost,
                cancelled=runs.cancelled,
                skipped=runs.skipped,
                average_duration_ms=milliseconds(runs.average_duration),
                success_rate=runs.success_rate,
            ),
            dead_letters=DeadLettersOut(
                total=overview.dead_letters, unacknowledged=overview.open_dead_letters
            ),
            live_nodes=overview.live_nodes,
            at=overview.at,
        )


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
    """What all runs came to, in the interval scheduler's words."""

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
