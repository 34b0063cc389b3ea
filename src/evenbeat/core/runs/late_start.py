"""Whether a beat that is claimed late is still run."""

from datetime import datetime, timedelta

from evenbeat.core.jobs.catchup import MANUAL, OVERDUE, RETRY
from evenbeat.core.jobs.model import CatchUp, Claimed
from evenbeat.core.runs.outcome import Skipped
from evenbeat.core.time.durations import describe_duration

_SECOND = timedelta(seconds=1)


def skip_if_too_late(claimed: Claimed, now: datetime) -> Skipped | None:
    """Whether the beat has come too late to be run; asked before the handler starts."""
    run, policy = claimed.run, claimed.definition.policy
    if run.beat_at is None or run.cause is MANUAL or run.cause is RETRY:
        return None
    late = now - run.beat_at
    if policy.start_deadline is not None and late > policy.start_deadline:
        deadline = describe_duration(policy.start_deadline)
        return Skipped(f"{_in_words(late)} late, and start_deadline is {deadline}")
    # A one-off job has no rhythm to fall back into: skipped once is skipped for good.
    is_recurring = claimed.definition.timetable.schedule.is_recurring
    if is_recurring and policy.catch_up is CatchUp.NONE and late > OVERDUE:
        return Skipped(f"{_in_words(late)} late, and catch_up is none")
    return None


def _in_words(late: timedelta) -> str:
    return describe_duration(late - late % _SECOND)
