"""Why a job is not running, when it will, and why it is late: in plain English."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from evenbeat.core.jobs.catchup import OVERDUE
from evenbeat.core.jobs.model import AfterFailure, Cause, Job, State
from evenbeat.core.runs.registry import describe_unserved_kind
from evenbeat.core.time.durations import describe_duration, round_for_people


@dataclass(frozen=True, slots=True)
class ExplanationContext:
    """What is known around a job. `serving_nodes` are the live nodes that serve its kind."""

    live_nodes: int = 1
    serving_nodes: int = 1
    blocked_by: str | None = None
    running_on: str | None = None
    running_since: datetime | None = None
    # Why nothing is started at all, while maintenance is on.
    maintenance: str | None = None


@dataclass(frozen=True, slots=True)
class _NextStep:
    """What the job is waiting to do, and from when on it may."""

    what: str
    at: datetime


_NORMAL = ExplanationContext()


def explain_job(job: Job, now: datetime, around: ExplanationContext = _NORMAL) -> str:
    """One or two sentences: where the job stands, and what comes next."""
    match job.pulse.state:
        case State.RUNNING:
            return _running(job, now, around)
        case State.COMPLETED:
            return f"Completed{_ago(job, now)}: nothing more is to come. Retry runs it once more."
        case State.CANCELLED:
            return f"Cancelled{_ago(job, now)}: it does not run again unless it is retried."
        case State.BLOCKED:
            return _blocked(job, now, around)
        case State.PAUSED:
            return _put_aside(job, now, around, f"Paused{_ago(job, now)}", "resumed")
        case State.DISABLED:
            return _put_aside(job, now, around, f"Disabled{_ago(job, now)}", "enabled")
        case State.FAILED:
            return _failed(job, now, around)
        case State.PENDING | State.SCHEDULED:
            errand = _find_next_step(job)
            if errand is None:
                return "Waiting, but no beat is planned: edit its schedule or run it by hand."
            return _will_run(errand, now, around, job)


def _running(job: Job, now: datetime, around: ExplanationContext) -> str:
    where = f" on {around.running_on}" if around.running_on else ""
    since = around.running_since or job.pulse.state_at
    how_long = f" for {_length(now - since)}" if since else ""
    pulse = job.pulse
    attempt = pulse.manual_attempt if pulse.cause is Cause.MANUAL else pulse.attempt
    text = f"Running{where}{how_long}, {_attempt(job, attempt)}."
    if job.pulse.manual_at and since and job.pulse.manual_at > since:
        return f"{text} It was asked to run by hand once more after that."
    return text


def _blocked(job: Job, now: datetime, around: ExplanationContext) -> str:
    by = around.blocked_by or "its group is full"
    errand, late = _find_next_step(job), ""
    if errand is not None and now > errand.at:
        late = f" It has been due for {_length(now - errand.at)}."
    return (
        f"Blocked: {by}. It runs as soon as a place is free.{late}{_describe_obstacle(job, around)}"
    )


def _put_aside(job: Job, now: datetime, around: ExplanationContext, what: str, until: str) -> str:
    if job.pulse.manual_at is None:
        return f"{what}: nothing runs until it is {until}."
    errand = _NextStep("the run asked for by hand", job.pulse.manual_at)
    return f"{what}, but {_lower(_will_run(errand, now, around, job))} It stays as it is then."


def _failed(job: Job, now: datetime, around: ExplanationContext) -> str:
    errand = _find_next_step(job)
    text = f"Failed{_ago(job, now)}, with no attempt left"
    if errand is not None:
        return f"{text}. {_will_run(errand, now, around, job)}"
    is_stopped = (
        job.definition.timetable.schedule.is_recurring
        and job.definition.policy.after_failure is AfterFailure.STOP
    )
    why = " and stopped, because after_failure is stop" if is_stopped else ""
    return f"{text}{why}: it does not run again unless it is retried."


def _will_run(errand: _NextStep, now: datetime, around: ExplanationContext, job: Job) -> str:
    subject = errand.what[0].upper() + errand.what[1:]
    obstacle = _describe_obstacle(job, around)
    if errand.at > now:
        return f"{subject} comes in {_length(errand.at - now)}, at {_clock(errand.at)}.{obstacle}"
    if obstacle:
        return f"{subject} has been due for {_length(now - errand.at)}.{obstacle}"
    if now - errand.at <= OVERDUE:
        return f"{subject} is due and starts any moment now."
    late = _length(now - errand.at)
    return f"{subject} is {late} late: every node that serves {job.definition.kind} is busy."


def _describe_obstacle(job: Job, around: ExplanationContext) -> str:
    if around.maintenance is not None:
        why = f" ({around.maintenance})" if around.maintenance else ""
        return f" Maintenance is on{why}: nothing starts until it is switched off."
    if around.live_nodes == 0:
        return " No node is alive: start one."
    if around.serving_nodes == 0:
        return f" {describe_unserved_kind(job.definition.kind, job.definition.runs_on)}"
    return ""


def _find_next_step(job: Job) -> _NextStep | None:
    """What comes first: a run by hand, a retry, or the next beat; a retry goes before its beat."""
    pulse, errands = job.pulse, list[_NextStep]()
    if pulse.manual_at is not None:
        errands.append(_NextStep("the run asked for by hand", pulse.manual_at))
    if pulse.retry_at is not None:
        errands.append(_NextStep(f"the retry ({_attempt(job, pulse.attempt + 1)})", pulse.retry_at))
    elif pulse.next_beat_at is not None:
        is_recurring = job.definition.timetable.schedule.is_recurring
        errands.append(_NextStep("the next run" if is_recurring else "the run", pulse.next_beat_at))
    return min(errands, key=lambda errand: errand.at, default=None)


def _attempt(job: Job, attempt: int) -> str:
    return f"attempt {attempt} of {job.definition.policy.max_attempts}"


def _ago(job: Job, now: datetime) -> str:
    since = job.pulse.state_at
    return f" {_length(now - since)} ago" if since and since < now else ""


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _clock(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _length(length: timedelta) -> str:
    rounded = round_for_people(length)
    return describe_duration(rounded) if rounded else "a moment"
