"""The values everything else speaks of: a job, its pulse, its runs.

A job is what a person wrote; its pulse is what the engine writes. Nothing here changes: a new
value comes from `dataclasses.replace`, and what is stored follows from a Verdict.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from evenbeat.core.frozen import frozen_value
from evenbeat.core.jobs.backoff import Backoff, Exponential, RetryRule
from evenbeat.core.jobs.groups import Group
from evenbeat.core.time.timetable import Timetable


class State(StrEnum):
    """Where a job is. `RUNNING` is never stored: a job runs while its pulse holds a token."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DISABLED = "disabled"


class RunState(StrEnum):
    """How a run ended, or that it has not."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Cause(StrEnum):
    """Why a run happened."""

    SCHEDULE = "schedule"
    CATCHUP = "catchup"
    MANUAL = "manual"
    RETRY = "retry"


class ErrorClass(StrEnum):
    """What sort of end a run that did not complete came to."""

    HANDLER_ERROR = "handler_error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LOST = "lost"
    HANDED_BACK = "handed_back"
    SNOOZED = "snoozed"


class CatchUp(StrEnum):
    """What becomes of beats that no node was there to run."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class AfterFailure(StrEnum):
    """What a recurring job does once a beat has run out of attempts."""

    CONTINUE = "continue"
    STOP = "stop"


# One value, shared by all jobs that name no other: to make it took longer than to make a job.
DEFAULT_BACKOFF = Exponential()


@dataclass(frozen=True, slots=True)
class Policy:
    """How a job is tried: how often, how long, and what happens when it goes wrong."""

    # Faces that copy another scheduler have its default: /api/v1 asks for 4.
    max_attempts: int = 3
    backoff: Backoff = DEFAULT_BACKOFF
    timeout: timedelta = timedelta(hours=1)
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_cap: int = 100
    start_deadline: timedelta | None = None
    after_failure: AfterFailure = AfterFailure.CONTINUE
    pause_after_failures: int | None = None
    retry_rules: tuple[RetryRule, ...] = ()


DEFAULT_POLICY = Policy()
# The label that shows where in the code a job is declared.
DECLARED_IN = "declared_in"


@frozen_value
class Definition:
    """What a person wrote: everything about a job that only people change."""

    kind: str
    timetable: Timetable
    payload: Any = field(default_factory=dict[str, Any])
    name: str | None = None
    policy: Policy = DEFAULT_POLICY
    priority: int = 0
    labels: dict[str, str] = field(default_factory=dict[str, str])
    group: Group | None = None
    # Labels that a node must carry to be given this job.
    runs_on: tuple[str, ...] = ()
    # In which words a client wrote it, where they are not ours: kept to be given back.
    wording: dict[str, Any] = field(default_factory=dict[str, Any])


@frozen_value
class OpenRun:
    """The run a node has in hand; `token` is its right to write the end of it."""

    id: int
    number: int
    cause: Cause
    beat_at: datetime | None
    attempt: int
    started_at: datetime
    token: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """What the engine knows of a job: when it is due, how it fared, the run in hand.

    `state` is what people see, `resting` the state at rest below it: they differ while the job
    runs or is parked. `wanted` is what a person asked for while it runs, obeyed when the run ends.
    `beat_at` and `attempt` are of the run in hand or of the retry that waits; `cause` is of the
    run in hand.
    """

    state: State
    next_beat_at: datetime | None = None
    retry_at: datetime | None = None
    manual_at: datetime | None = None
    due_at: datetime | None = None
    state_at: datetime | None = None
    completed_count: int = 0
    failed_count: int = 0
    failure_streak: int = 0
    lost_streak: int = 0
    attempt: int = 0
    run_number: int = 0
    resting: State | None = None
    wanted: State | None = None
    cause: Cause | None = None
    beat_at: datetime | None = None
    manual_attempt: int = 0
    runs_so_far: int = 0
    # Of the run in hand or the last one; the node only while it runs.
    last_started_at: datetime | None = None
    last_finished_at: datetime | None = None
    last_error: str | None = None
    last_error_class: ErrorClass | None = None
    node: str | None = None

    @property
    def has_next(self) -> bool:
        """Whether something is to come by itself: a beat, or the retry of one."""
        return self.next_beat_at is not None or self.retry_at is not None

    @property
    def heading(self) -> State | None:
        """Where a job that runs or is parked comes to rest, whatever its run says.

        None: as the run decides. Set by what a person asked for while it runs. A paused or disabled
        job goes back to that state after a run by hand.
        """
        if self.state not in (State.RUNNING, State.BLOCKED):
            return None
        is_suspended = self.resting in (State.PAUSED, State.DISABLED)
        return self.wanted or (self.resting if is_suspended else None)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as stored. `id` is ours, `uid` is what clients see.

    `is_new` and `warnings` are for the caller that asked for the job: whether its call has made the
    job, and which of its limits of the group do not hold.
    """

    id: int
    uid: UUID
    definition: Definition
    pulse: Pulse
    version: int
    created_at: datetime
    updated_at: datetime
    is_new: bool = field(default=False, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)


@frozen_value
class Claimed:
    """A job with the run that a node has just been given; `runs_so_far` are beats run to an end."""

    id: int
    uid: UUID
    definition: Definition
    run: OpenRun
    next_beat_at: datetime | None
    plan_version: int
    runs_so_far: int
    failure_streak: int = 0
    lost_streak: int = 0
    lane_id: int = 0
    # Only a claim knows it. Without it, this is still the same job with the same run.
    turn_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class UnrunnableClaim:
    """A job that was claimed and cannot be run: this version cannot read its definition."""

    id: int
    uid: UUID | None
    run: OpenRun
    plan_version: int
    error: str
    lane_id: int = 0
    turn_at: datetime | None = field(default=None, compare=False)


HeldRun = Claimed | UnrunnableClaim
"""A run that a node holds the lease of."""


@dataclass(frozen=True, slots=True)
class Run:
    """One try at a job: a row of its history, or the run in hand (`finished_at` is None)."""

    id: int
    job_uid: UUID
    number: int
    state: RunState
    cause: Cause
    beat_at: datetime | None
    attempt: int
    started_at: datetime
    finished_at: datetime | None = None
    duration: timedelta | None = None
    node: str | None = None
    error_class: ErrorClass | None = None
    error: str | None = None
    stack_trace: str | None = None
    result: Any = None
    items_crawled: int = 0
    items_indexed: int = 0
    reason: str | None = None
    skipped_count: int | None = None
    skipped_until: datetime | None = None
