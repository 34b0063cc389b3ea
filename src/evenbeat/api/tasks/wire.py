"""Tasks and attempts as clients of /tasks know them, made from jobs and runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, cast, get_args
from uuid import UUID

import orjson
from pydantic import BaseModel, Field

from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.jobs.backoff import Linear
from evenbeat.core.jobs.model import (
    Cause,
    Definition,
    ErrorClass,
    Job,
    Policy,
    Run,
    RunState,
    State,
)
from evenbeat.core.jobs.payload import check_json
from evenbeat.core.limits import LONGEST_TASK_PAYLOAD, MOST_TASK_ATTEMPTS
from evenbeat.core.time.schedules.base.instants import check_instant, read_datetime
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.timetable import Timetable

DEFAULT_ATTEMPTS = 3
# For clocks that differ, and requests that take a while: `runAt` may lie this far in the past.
LATEST_CLIENT = timedelta(seconds=10)
# Every task has one of these: it waits 5 s after its first failure, 10 s after the second.
POLICIES = {
    number: Policy(max_attempts=number, backoff=Linear(step=timedelta(seconds=5)))
    for number in range(1, MOST_TASK_ATTEMPTS + 1)
}
PAST = "runAt must be in future"
TOO_LONG = "payload too long"
# Clients know these errors as the whole message, not as one of several invalid fields.
SENTENCES = frozenset({PAST, TOO_LONG})
# Our names of fields, and theirs.
FIELDS = {"kind": "type", "schedule.once": "runAt", "max_attempts": "maxAttempts"}
LEASE_EXPIRED = "Task lease expired"
MISSING: Any = object()


class TaskStatus(StrEnum):
    """Where a task is."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


STATUSES = {
    State.PENDING: TaskStatus.PENDING,
    State.SCHEDULED: TaskStatus.PENDING,
    State.BLOCKED: TaskStatus.PENDING,
    State.PAUSED: TaskStatus.PENDING,
    State.RUNNING: TaskStatus.RUNNING,
    State.COMPLETED: TaskStatus.DONE,
    State.FAILED: TaskStatus.FAILED,
    State.CANCELLED: TaskStatus.CANCELED,
    State.DISABLED: TaskStatus.CANCELED,
}
STATES = {
    status: frozenset(state for state, theirs in STATUSES.items() if theirs is status)
    for status in TaskStatus
}
# A run that a person stopped, or that was handed back, neither succeeded nor failed.
ATTEMPTS = {
    RunState.RUNNING: "STARTED",
    RunState.COMPLETED: "SUCCESS",
    RunState.FAILED: "FAILED",
    RunState.CANCELLED: "CANCELED",
}

PayloadForm = Literal["json", "string"]
FORMS = get_args(PayloadForm)


class TaskIn(BaseModel):
    """A task to be run once. This describes it; `read_task` reads it."""

    type: str = Field(min_length=1, description="which handler runs it, in any case")
    payload: Any = Field(
        description=f"what the handler gets: JSON of up to {LONGEST_TASK_PAYLOAD} characters"
    )
    runAt: datetime = Field(description="not before; at the earliest ten seconds ago")  # noqa: N815
    maxAttempts: int | None = Field(  # noqa: N815
        None, ge=1, le=MOST_TASK_ATTEMPTS, description=f"{DEFAULT_ATTEMPTS} if left out"
    )


class TaskOut(BaseModel):
    """A task as it is now. This describes it; `task_fields` makes it."""

    id: UUID
    type: str
    payload: Any
    status: TaskStatus
    runAt: datetime | None  # noqa: N815
    attempt: int
    maxAttempts: int  # noqa: N815
    error: str | None


class AttemptOut(BaseModel):
    """One try at a task. This describes it; `attempt_fields` makes it."""

    id: int
    attempt: int
    status: Literal["STARTED", "SUCCESS", "FAILED", "CANCELED"]
    startedAt: datetime  # noqa: N815
    finishedAt: datetime | None  # noqa: N815
    error: str | None


@dataclass(frozen=True, slots=True)
class Task:
    """A task to add; `run_at` has the offset that the client wrote."""

    definition: Definition
    run_at: datetime


def read_task(body: Mapping[str, Any], now: datetime) -> Task:
    """Read a task. Raises InvalidInput with every field at fault; unknown fields are ignored."""
    given: dict[str, Any] = {}
    faults: list[FieldError] = []
    for field, read in READERS.items():
        try:
            given[field] = read(body.get(field, MISSING))
        except InvalidInput as error:
            faults.extend(error.errors)
    if faults:
        raise InvalidInput(faults[0].field, faults[0].message, more=faults[1:])
    payload, run_at = given["payload"], given["runAt"]
    if len(json_text(payload)) > LONGEST_TASK_PAYLOAD:
        raise InvalidInput("payload", TOO_LONG)
    if run_at < now - LATEST_CLIENT:
        raise InvalidInput("runAt", PAST)
    policy = POLICIES[given["maxAttempts"]]
    return Task(
        Definition(given["type"], timetable_for(run_at), payload=payload, policy=policy), run_at
    )


# Thousands of tasks are often added for one instant.
@lru_cache(maxsize=1024)
def timetable_for(run_at: datetime) -> Timetable:
    return Timetable(Once(run_at))


def read_type(value: Any) -> str:
    if value is MISSING or value is None:
        raise InvalidInput("type", "is required")
    if not isinstance(value, str):
        raise InvalidInput("type", "must be text")
    if not value.strip():
        raise InvalidInput("type", "must not be blank")
    return value.strip().lower()


def read_payload(value: Any) -> Any:
    """Any JSON value, null included; only a missing payload is refused."""
    if value is MISSING:
        raise InvalidInput("payload", "is required")
    check_json(value, "payload")
    return value


def read_run_at(value: Any) -> datetime:
    if value is MISSING or value is None:
        raise InvalidInput("runAt", "is required")
    at = read_datetime(value, "runAt")
    check_instant(at, "runAt")
    return at


def read_max_attempts(value: Any) -> int:
    if value is MISSING or value is None:
        return DEFAULT_ATTEMPTS
    if type(value) is not int or value not in POLICIES:
        raise InvalidInput("maxAttempts", f"must be a whole number from 1 to {MOST_TASK_ATTEMPTS}")
    return value


def read_form(value: str) -> PayloadForm:
    if value not in FORMS:
        raise InvalidInput("payload", f"can be shown as {' or '.join(FORMS)}")
    return cast("PayloadForm", value)


READERS: dict[str, Callable[[Any], Any]] = {
    "type": read_type,
    "payload": read_payload,
    "runAt": read_run_at,
    "maxAttempts": read_max_attempts,
}


def task_fields(job: Job, form: PayloadForm, run_at: datetime | None = None) -> dict[str, Any]:
    """The job as a task. A client that has just written `run_at` gets it back as it wrote it."""
    payload = job.definition.payload
    return {
        "id": job.uid,
        "type": job.definition.kind,
        "payload": json_text(payload) if form == "string" else payload,
        "status": STATUSES[job.pulse.state],
        "runAt": run_at or find_run_at(job),
        "attempt": count_attempts(job),
        "maxAttempts": job.definition.policy.max_attempts,
        "error": describe_error(job.pulse.last_error_class, job.pulse.last_error),
    }


def attempt_fields(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "attempt": run.attempt,
        "status": ATTEMPTS[run.state],
        "startedAt": run.started_at,
        "finishedAt": run.finished_at,
        "error": describe_error(run.error_class, run.error or run.reason),
    }


def find_run_at(job: Job) -> datetime | None:
    """When the job runs next; of a finished job, when it was to run."""
    pulse, schedule = job.pulse, job.definition.timetable.schedule
    waits_for = [at for at in (pulse.retry_at or pulse.next_beat_at, pulse.manual_at) if at]
    if waits_for:
        return min(waits_for)
    return schedule.at if isinstance(schedule, Once) else pulse.beat_at


def count_attempts(job: Job) -> int:
    """Attempts so far, the running one included. A run by hand counts its own attempts."""
    pulse = job.pulse
    is_by_hand = pulse.cause is Cause.MANUAL or pulse.manual_at is not None
    return pulse.manual_attempt if is_by_hand else pulse.attempt


def describe_error(error_class: ErrorClass | None, error: str | None) -> str | None:
    return LEASE_EXPIRED if error_class is ErrorClass.LOST else error


def json_text(payload: Any) -> str:
    return orjson.dumps(payload).decode()


def encode_json(answer: Any) -> bytes:
    """JSON whose instants keep their offset; UTC is written as Z."""
    return orjson.dumps(answer, option=orjson.OPT_UTC_Z)
