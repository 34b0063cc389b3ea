"""What goes over the wire on /api/v1, and how it translates."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from evenbeat.control.checks import HIGHEST_PRIORITY, LONGEST_NAME
from evenbeat.control.history import Page
from evenbeat.core.durations import Limits, parse_duration
from evenbeat.core.ids import run_uid
from evenbeat.core.model import Cause, Definition, ErrorClass, Job, Policy, Run, RunState, State
from evenbeat.core.timetable import Timetable

# S1's three retries are four tries.
DEFAULT_ATTEMPTS = 4
TIMEOUT = Limits(shortest=timedelta(seconds=1), longest=timedelta(days=30))

# Read by core, whose messages say more than "none of these types".
TEXT_OR_OBJECT = WithJsonSchema({"type": ["string", "object", "null"]})
TEXT_OR_SECONDS = WithJsonSchema({"type": ["string", "integer", "null"]})

Label = Annotated[str, Field(min_length=1, max_length=100)]


class JobIn(BaseModel):
    """A new job. Without a schedule it runs once, now."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"kind": "echo", "payload": {"hello": "world"}},
                {"name": "nightly", "kind": "echo", "schedule": "daily 02:30 Europe/Berlin"},
            ]
        },
    )

    kind: Annotated[str, Field(min_length=1, max_length=100)]
    payload: Any = Field(default_factory=dict[str, Any])
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = None
    schedule: Annotated[Any, TEXT_OR_OBJECT] = Field(
        None, description='a text such as "every 30m", or an object such as {"every": "30m"}'
    )
    priority: Annotated[int, Field(ge=0, le=HIGHEST_PRIORITY)] = 0
    labels: Annotated[dict[Label, Label], Field(max_length=50)] = Field(
        default_factory=dict[str, str]
    )
    max_attempts: Annotated[int, Field(ge=1, le=1000)] = DEFAULT_ATTEMPTS
    timeout: Annotated[Any, TEXT_OR_SECONDS] = Field(
        None, description="how long one run may take, as in 5m"
    )

    def to_core(self) -> Definition:
        return Definition(
            kind=self.kind,
            payload=self.payload,
            name=self.name,
            timetable=Timetable.from_object(
                {"schedule": "now" if self.schedule is None else self.schedule}
            ),
            policy=self._policy(),
            priority=self.priority,
            labels=self.labels,
        )

    def _policy(self) -> Policy:
        if self.timeout is None:
            return Policy(max_attempts=self.max_attempts)
        timeout = parse_duration(self.timeout, "timeout", TIMEOUT)
        return Policy(max_attempts=self.max_attempts, timeout=timeout)


class JobOut(BaseModel):
    """A job as it is now."""

    id: UUID
    name: str | None
    kind: str
    payload: Any
    schedule: dict[str, Any]
    schedule_text: str
    status: State
    priority: int
    labels: dict[str, str]
    max_attempts: int
    timeout: float
    next_run_at: datetime | None
    completed_count: int
    failed_count: int
    version: int
    created_at: datetime
    updated_at: datetime

    @classmethod
    def from_core(cls, job: Job) -> Self:
        definition, pulse = job.definition, job.pulse
        return cls(
            id=job.uid,
            name=definition.name,
            kind=definition.kind,
            payload=definition.payload,
            schedule=definition.timetable.schedule.to_object(),
            schedule_text=definition.timetable.describe(),
            status=pulse.state,
            priority=definition.priority,
            labels=definition.labels,
            max_attempts=definition.policy.max_attempts,
            timeout=definition.policy.timeout.total_seconds(),
            next_run_at=pulse.due_at,
            completed_count=pulse.completed_count,
            failed_count=pulse.failed_count,
            version=job.version,
            created_at=job.created_at,
            updated_at=job.updated_at,
        )


class ExecutionOut(BaseModel):
    """One run: a try at the job, or beats that were skipped and why."""

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
    def from_core(cls, page: Page, *, limit: int, offset: int) -> Self:
        return cls(
            executions=[ExecutionOut.from_core(run) for run in page.runs],
            total=page.total,
            limit=limit,
            offset=offset,
        )
