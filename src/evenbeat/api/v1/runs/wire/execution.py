"""Runs as clients see them."""

from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID

from pydantic import BaseModel, Field

from evenbeat.control.runs.history import RunPage
from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.jobs.model import Cause, ErrorClass, Run, RunState


class ExecutionOut(BaseModel):
    """One run: an attempt at the job, or beats that were skipped and why."""

    id: UUID
    job_id: UUID
    execution_number: int
    status: RunState
    cause: Cause
    beat_at: datetime | None
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None
    items_crawled: int
    items_indexed: int
    error_class: ErrorClass | None
    error_message: str | None
    stack_trace: str | None
    result: Any
    attempt: int
    retry_attempt: int
    node: str | None
    reason: str | None
    skipped_count: int | None
    skipped_until: datetime | None
    # Measured once handlers have processes of their own.
    cpu_time_ms: int | None = None
    memory_peak_mb: int | None = None
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])

    @classmethod
    def from_core(cls, run: Run) -> Self:
        return cls(
            id=run_uid(run.id),
            job_id=run.job_uid,
            execution_number=run.number,
            status=run.state,
            cause=run.cause,
            beat_at=run.beat_at,
            started_at=run.started_at,
            completed_at=run.finished_at,
            duration_ms=None if run.duration is None else run.duration // timedelta(milliseconds=1),
            items_crawled=run.items_crawled,
            items_indexed=run.items_indexed,
            error_class=run.error_class,
            error_message=run.error,
            stack_trace=run.stack_trace,
            result=run.result,
            attempt=run.attempt,
            retry_attempt=max(run.attempt - 1, 0),
            node=run.node,
            reason=run.reason,
            skipped_count=run.skipped_count,
            skipped_until=run.skipped_until,
        )


class ExecutionsOut(BaseModel):
    """A page of runs, newest first."""

    executions: list[ExecutionOut]
    total: int
    limit: int
    offset: int

    @classmethod
    def from_core(cls, page: RunPage, *, limit: int, offset: int) -> Self:
        return cls(
            executions=[ExecutionOut.from_core(run) for run in page.runs],
            total=page.total,
            limit=limit,
            offset=offset,
        )
