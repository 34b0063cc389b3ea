"""Jobs as clients see them, in both vocabularies."""

from datetime import datetime
from typing import Any, Self, cast
from uuid import UUID

from pydantic import BaseModel

from evenbeat.api.v1.jobs.wire import interval_scheduler_words
from evenbeat.api.v1.jobs.wire.job_in import CRAWL
from evenbeat.control.jobs.adding import Batch
from evenbeat.core.jobs import actions
from evenbeat.core.jobs.backoff import Backoff, Exponential, Fixed, Linear
from evenbeat.core.jobs.model import Definition, Job, Pulse, State
from evenbeat.core.ops.statistics import Health, HealthCondition
from evenbeat.core.time.durations import describe_duration

BEATS_SHOWN = 5
# The interval scheduler has no word for a job that waits for its group.
STATUS_OF_STATE = {State.BLOCKED: State.SCHEDULED}


class LeaseOut(BaseModel):
    """The node that runs the job, and since when."""

    node: str | None
    since: datetime | None


class LimitsOut(BaseModel):
    """The limit that the job itself has in its group; /groups shows the limits of the group."""

    job_limit: int | None


class JobOut(BaseModel):
    """A job as it is now."""

    id: UUID
    name: str | None
    kind: str
    payload: Any
    status: State
    state: State
    schedule: dict[str, Any]
    schedule_text: str
    effective_period: str | None
    starts_at: datetime | None
    ends_at: datetime | None
    max_runs: int | None
    window: dict[str, Any] | None
    within: float | None
    prefers: dict[str, Any] | None
    balance: bool
    phase: float | None
    next_run_at: datetime | None
    next_beat_at: datetime | None
    next_retry_at: datetime | None
    timeout: float
    priority: int
    group: str | None
    limits: LimitsOut | None
    labels: dict[str, str]
    tags: list[str]
    runs_on: list[str]
    max_attempts: int
    backoff: dict[str, Any]
    retry_rules: list[dict[str, Any]]
    catch_up: str
    catch_up_cap: int
    start_deadline: float | None
    after_failure: str
    pause_after_failures: int | None
    completed_count: int
    failed_count: int
    failure_streak: int
    lease: LeaseOut | None
    type: str
    url: str | None
    source_id: str | None
    source_name: str | None
    metadata: dict[str, Any]
    interval_minutes: int | None
    interval_type: str | None
    schedule_time: str | None
    schedule_enabled: bool
    is_paused: bool
    max_retries: int
    retry_backoff_seconds: int | float
    current_retry_count: int
    started_at: datetime | None
    completed_at: datetime | None
    paused_at: datetime | None
    cancelled_at: datetime | None
    error_message: str | None
    version: int
    created_at: datetime
    updated_at: datetime
    allowed_actions: list[str]
    warnings: list[str]

    @classmethod
    def from_core(cls, job: Job, now: datetime) -> Self:
        return cls(**job_fields(job, now))


class HealthOut(BaseModel):
    """Whether the job needs attention, and why."""

    condition: HealthCondition
    reasons: list[str]


class JobDetailOut(JobOut):
    """A job as it is now, with its next beats and its health."""

    next: list[datetime]
    health: HealthOut

    @classmethod
    def from_parts(cls, job: Job, health: Health, now: datetime) -> Self:
        return cls(
            **job_fields(job, now),
            next=list(next_beats(job, now)),
            health=HealthOut(condition=health.condition, reasons=list(health.reasons)),
        )


class BatchOut(BaseModel):
    """The ids of new jobs, in the order in which they were sent."""

    ids: list[UUID]
    created: int
    warnings: list[str]

    @classmethod
    def from_core(cls, batch: Batch) -> Self:
        return cls(ids=batch.uids, created=batch.new_count, warnings=list(batch.warnings))


class MessageOut(BaseModel):
    """A sentence that says what was done."""

    message: str


class ExplanationOut(BaseModel):
    """Where a job stands, in a sentence or two."""

    explanation: str


def next_beats(job: Job, now: datetime, count: int = BEATS_SHOWN) -> tuple[datetime, ...]:
    """The next beats; none while the job is paused or disabled."""
    cursor = job.pulse.next_beat_at
    if cursor is None or job.pulse.resting in (State.PAUSED, State.DISABLED):
        return ()
    timetable = job.definition.timetable
    so_far = job.pulse.runs_so_far
    following = timetable.next_beats(max(cursor, now), count - 1, so_far + 1)
    return (cursor, *following)


def job_fields(job: Job, now: datetime) -> dict[str, Any]:
    definition = job.definition
    return {
        "id": job.uid,
        "version": job.version,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        **definition_fields(definition, now),
        **pulse_fields(job),
        **interval_job_schedule(job),
    }


def definition_fields(definition: Definition, now: datetime) -> dict[str, Any]:
    """The fields that people write."""
    return {
        **text_fields(definition),
        **timing_fields(definition, now),
        **retry_fields(definition),
        **crawl_fields(definition),
    }


def text_fields(definition: Definition) -> dict[str, Any]:
    group, labels = definition.group, definition.labels
    return {
        "name": definition.name,
        "kind": definition.kind,
        "type": definition.kind,
        "payload": definition.payload,
        "priority": definition.priority,
        "group": group and group.key,
        "limits": group and LimitsOut(job_limit=group.job_limit),
        "labels": {name: value for name, value in labels.items() if value},
        "tags": [name for name, value in labels.items() if not value],
        "runs_on": list(definition.runs_on),
    }


def timing_fields(definition: Definition, now: datetime) -> dict[str, Any]:
    timetable = definition.timetable
    period = timetable.effective_period(now)
    return {
        "schedule": timetable.schedule.to_object(),
        "schedule_text": timetable.describe(),
        "effective_period": None if period is None else describe_duration(period),
        "starts_at": timetable.bounds.starts_at,
        "ends_at": timetable.bounds.ends_at,
        "max_runs": timetable.bounds.max_runs,
        "window": timetable.window and timetable.window.to_object(),
        "within": timetable.within and timetable.within.total_seconds(),
        "prefers": timetable.prefers and timetable.prefers.to_object(),
        "balance": timetable.balance,
        "phase": None if timetable.phase is None else timetable.phase.total_seconds(),
    }


def retry_fields(definition: Definition) -> dict[str, Any]:
    policy = definition.policy
    deadline = policy.start_deadline
    return {
        "timeout": policy.timeout.total_seconds(),
        "max_attempts": policy.max_attempts,
        "max_retries": policy.max_attempts - 1,
        "backoff": policy.backoff.to_object(),
        "retry_backoff_seconds": first_wait(policy.backoff),
        "retry_rules": [rule.to_object() for rule in policy.retry_rules],
        "catch_up": policy.catch_up,
        "catch_up_cap": policy.catch_up_cap,
        "start_deadline": deadline and deadline.total_seconds(),
        "after_failure": policy.after_failure,
        "pause_after_failures": policy.pause_after_failures,
    }


def first_wait(backoff: Backoff) -> int | float:
    match backoff:
        case Exponential(base=wait) | Linear(step=wait) | Fixed(wait=wait):
            seconds = wait.total_seconds()
        case _:
            seconds = backoff.delay(1).total_seconds()
    # Clients of the interval scheduler read whole numbers, not "60.0".
    return int(seconds) if seconds.is_integer() else seconds


def crawl_fields(definition: Definition) -> dict[str, Any]:
    """The payload of a crawl in the interval scheduler's words.

    SQL and handlers of a user's own may give a crawl any payload: what is of another type is left
    to the field `payload`.
    """
    payload: Any = definition.payload if definition.kind == CRAWL else {}
    given = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    texts = {name: given.get(name) for name in ("url", "source_id", "source_name")}
    metadata = given.get("metadata")
    return {
        **{name: text if isinstance(text, str) else None for name, text in texts.items()},
        "metadata": cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {},
    }


def pulse_fields(job: Job) -> dict[str, Any]:
    pulse, state = job.pulse, job.pulse.state
    # A new run has been asked for or has begun: how the last one ended is in the history.
    is_requested = pulse.manual_at is not None and not pulse.manual_attempt
    is_new_run = state is State.RUNNING or is_requested
    return {
        "state": state,
        "status": interval_job_status(job),
        "next_run_at": pulse.due_at,
        "next_beat_at": pulse.next_beat_at,
        "next_retry_at": next_retry(pulse),
        "completed_count": pulse.completed_count,
        "failed_count": pulse.failed_count,
        "failure_streak": pulse.failure_streak,
        "lease": LeaseOut(node=pulse.node, since=pulse.last_started_at)
        if state is State.RUNNING
        else None,
        "is_paused": state is State.PAUSED,
        "paused_at": pulse.state_at if state is State.PAUSED else None,
        "cancelled_at": pulse.state_at if is_cancelled(pulse) else None,
        "current_retry_count": retries_so_far(pulse),
        "started_at": pulse.last_started_at,
        "completed_at": None if is_new_run else pulse.last_finished_at,
        "error_message": None if is_new_run else pulse.last_error,
        "allowed_actions": list(actions.find_allowed_actions(pulse)),
    }


def interval_job_status(job: Job) -> State:
    """The status in the interval scheduler's words.

    A job that waits for a run by hand is pending, even if it recurs. A job whose run is being
    cancelled is cancelled.
    """
    pulse = job.pulse
    if is_cancelled(pulse):
        return State.CANCELLED
    is_waiting = pulse.state in (State.SCHEDULED, State.BLOCKED, State.PENDING)
    if is_waiting and (pulse.manual_at is not None or (is_one_off(job) and not pulse.retry_at)):
        return State.PENDING
    return STATUS_OF_STATE.get(pulse.state, pulse.state)


def is_cancelled(pulse: Pulse) -> bool:
    return State.CANCELLED in (pulse.state, pulse.wanted)


def is_one_off(job: Job) -> bool:
    return not job.definition.timetable.schedule.is_recurring


def retries_so_far(pulse: Pulse) -> int:
    """The retries before the attempt that runs or waits."""
    if pulse.state is State.RUNNING:
        return max(pulse.attempt - 1, 0)
    if pulse.manual_at is not None:
        return pulse.manual_attempt
    return pulse.attempt if pulse.retry_at is not None else 0


def next_retry(pulse: Pulse) -> datetime | None:
    """When a failed attempt is tried again, of a beat or of a run by hand."""
    if pulse.state is State.RUNNING:
        return None
    return pulse.manual_at if pulse.manual_attempt else pulse.retry_at


def interval_job_schedule(job: Job) -> dict[str, Any]:
    words = interval_scheduler_words.schedule_words(job.definition)
    if job.pulse.state is State.DISABLED:
        words["schedule_enabled"] = False
    return {**words, "warnings": [*interval_scheduler_words.find_warnings(words), *job.warnings]}
