"""What becomes of a beat: whether it is still run, and what follows from the end of its run.

This is the one place where that is decided.

A beat is settled (done, exhausted, cancelled, skipped) or a retry of it waits: never both, and
never neither. The cursor, `next_beat_at`, moves only when its beat is settled. What a person asked
for while the job ran (pause, disable, cancel) is not known here: it outranks the verdict where
the verdict is stored.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from evenbeat.core.frozen import frozen_value
from evenbeat.core.jobs.backoff import find_retry_rule
from evenbeat.core.jobs.catchup import MANUAL, OVERDUE, RETRY, MissedBeats, find_next_beat
from evenbeat.core.jobs.model import (
    AfterFailure,
    CatchUp,
    Cause,
    Claimed,
    ErrorClass,
    HeldRun,
    RunState,
    State,
)
from evenbeat.core.runs.outcome import (
    Cancelled,
    Done,
    Failed,
    HandedBack,
    Lost,
    Outcome,
    Skipped,
    Snoozed,
)
from evenbeat.core.time.durations import describe_duration

# A job that kills its node again and again must not take the whole fleet down with it.
MOST_LOSSES = 3
# An instant far beyond any plan would be refused by the store, and the end of the run with it.
LONGEST_SNOOZE = timedelta(days=366)
_SECOND = timedelta(seconds=1)
# Compared in every run: a global is faster than an attribute of the enumeration.
_MANUAL = Cause.MANUAL


@frozen_value
class Verdict:
    """What the store writes when a run ends.

    - `state`: where the job rests.
    - `next_beat_at`: the cursor from now on, written only if `moves_cursor`.
    - `retry_at`: when the same beat is tried again; of a manual run, when it is tried again by
      hand. None: the beat, or the manual run, is settled.
    - `attempts_used`: what the next claim counts on from.
    - `failure_streak`: beats in a row that ended failed; a failed attempt that is tried again
      does not count.
    - `is_dead`: goes to the dead letters.
    - `missed`: beats that will not be run, as one row.
    """

    run_state: RunState
    state: State
    moves_cursor: bool = False
    next_beat_at: datetime | None = None
    missed: MissedBeats | None = None
    retry_at: datetime | None = None
    attempts_used: int = 0
    failure_streak: int = 0
    lost_streak: int = 0
    is_dead: bool = False
    error_class: ErrorClass | None = None
    error: str | None = None
    stack_trace: str | None = None
    reason: str | None = None
    result: Any = None
    items_crawled: int = 0
    items_indexed: int = 0

    @property
    def is_settled(self) -> bool:
        return self.retry_at is None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a handler reports if it has written the end of its run itself, in the transaction of
    its work: both are stored, or neither. In the groups `group_ids` a place came free by that."""

    outcome: Outcome
    verdict: Verdict
    at: datetime
    duration: timedelta
    group_ids: frozenset[int] = frozenset()


@frozen_value
class SettledRun:
    """A run that has ended, and what follows from it."""

    claimed: HeldRun
    verdict: Verdict
    duration: timedelta | None


def skip_if_too_late(claimed: Claimed, now: datetime) -> Skipped | None:
    """Skipped if the beat comes too late to be run; asked before the handler starts."""
    run, policy = claimed.run, claimed.definition.policy
    if run.beat_at is None or run.cause is MANUAL or run.cause is RETRY:
        return None
    late = now - run.beat_at
    if policy.start_deadline is not None and late > policy.start_deadline:
        deadline = describe_duration(policy.start_deadline)
        return Skipped(f"{_in_words(late)} late, and start_deadline is {deadline}")
    # A one-off job has no later beat: skipped once is skipped for good.
    is_recurring = claimed.definition.timetable.schedule.is_recurring
    if is_recurring and policy.catch_up is CatchUp.NONE and late > OVERDUE:
        return Skipped(f"{_in_words(late)} late, and catch_up is none")
    return None


def _in_words(late: timedelta) -> str:
    return describe_duration(late - late % _SECOND)


def settle(claimed: Claimed, outcome: Outcome, now: datetime) -> Verdict:
    """What follows when `claimed` ended with `outcome` at `now`."""
    match outcome:
        case Done():
            return _done(claimed, outcome, now)
        case Failed():
            return _failed(claimed, outcome, now)
        case Lost():
            return _lost(claimed, outcome, now)
        case Snoozed() | HandedBack():
            return _snoozed_or_handed_back(claimed, outcome, now)
        case Cancelled():
            return _cancelled(claimed, outcome, now)
        case Skipped():
            return _skipped(claimed, outcome, now)


def stop_job(error: str) -> Verdict:
    """A job that its own rules cannot settle rests as failed, with no beat, until it is mended."""
    return Verdict(
        RunState.FAILED,
        State.FAILED,
        moves_cursor=True,
        failure_streak=1,
        is_dead=True,
        error_class=ErrorClass.HANDLER_ERROR,
        error=error,
    )


def _done(claimed: Claimed, outcome: Done, now: datetime) -> Verdict:
    # Nearly every run ends here. One constructor call: a `replace` would take longer than all this.
    state, moves_cursor, next_beat_at, missed = _find_continuation(claimed, _DONE, now)
    return Verdict(
        RunState.COMPLETED,
        state,
        moves_cursor,
        next_beat_at,
        missed,
        attempts_used=claimed.run.attempt,
        result=outcome.result,
        items_crawled=outcome.items_crawled,
        items_indexed=outcome.items_indexed,
    )


def _failed(claimed: Claimed, outcome: Failed, now: datetime) -> Verdict:
    verdict = Verdict(
        RunState.FAILED,
        State.FAILED,
        attempts_used=claimed.run.attempt,
        failure_streak=claimed.failure_streak,
        error_class=outcome.error_class,
        error=outcome.error,
        stack_trace=outcome.stack_trace,
        result=outcome.result,
    )
    policy, attempt = claimed.definition.policy, claimed.run.attempt
    rule = find_retry_rule(policy.retry_rules, outcome.error_type, outcome.error_class)
    if outcome.is_final or attempt >= _most_attempts(claimed, rule and rule.max_attempts):
        return _dead(claimed, verdict, now)
    backoff = (rule and rule.backoff) or policy.backoff
    delay = backoff.delay(attempt, seed=(claimed.id, claimed.run.number))
    return _waiting(verdict, now + delay)


def _lost(claimed: Claimed, outcome: Lost, now: datetime) -> Verdict:
    verdict = Verdict(
        RunState.FAILED,
        State.FAILED,
        attempts_used=claimed.run.attempt,
        failure_streak=claimed.failure_streak,
        lost_streak=claimed.lost_streak + 1,
        error_class=ErrorClass.LOST,
        error=outcome.reason,
    )
    rule = find_retry_rule(claimed.definition.policy.retry_rules, ErrorClass.LOST)
    most = _most_attempts(claimed, rule and rule.max_attempts)
    if verdict.lost_streak >= MOST_LOSSES or claimed.run.attempt >= most:
        # The next beat has its own three losses.
        return _dead(claimed, replace(verdict, lost_streak=0), now)
    # The fault is the node's until the losses say otherwise: there is nothing to wait for.
    return _waiting(verdict, now)


def _snoozed_or_handed_back(
    claimed: Claimed, outcome: Snoozed | HandedBack, now: datetime
) -> Verdict:
    is_snoozed = isinstance(outcome, Snoozed)
    verdict = Verdict(
        RunState.CANCELLED,
        State.SCHEDULED,
        attempts_used=max(claimed.run.attempt - 1, 0),
        failure_streak=claimed.failure_streak,
        error_class=ErrorClass.SNOOZED if is_snoozed else ErrorClass.HANDED_BACK,
        reason=outcome.reason,
    )
    delay = outcome.delay if is_snoozed else timedelta(0)
    return _waiting(verdict, now + min(max(delay, timedelta(0)), LONGEST_SNOOZE))


def _cancelled(claimed: Claimed, outcome: Cancelled, now: datetime) -> Verdict:
    verdict = Verdict(
        RunState.CANCELLED,
        State.CANCELLED,
        attempts_used=claimed.run.attempt,
        failure_streak=claimed.failure_streak,
        error_class=ErrorClass.CANCELLED,
        reason=outcome.reason,
    )
    if outcome.is_requested:
        # Nothing may be left that could bring a cancelled job back by itself.
        return replace(verdict, moves_cursor=True)
    return _settled(claimed, verdict, now)


def _skipped(claimed: Claimed, outcome: Skipped, now: datetime) -> Verdict:
    # A one-off job whose only beat came too late has not been done: people should see that.
    verdict = Verdict(
        RunState.SKIPPED,
        State.FAILED,
        attempts_used=claimed.run.attempt,
        failure_streak=claimed.failure_streak,
        lost_streak=claimed.lost_streak,
        reason=outcome.reason,
    )
    return _settled(claimed, verdict, now)


def _most_attempts(claimed: Claimed, by_rule: int | None) -> int:
    return claimed.definition.policy.max_attempts if by_rule is None else by_rule


def _waiting(verdict: Verdict, retry_at: datetime) -> Verdict:
    """The same beat again, at `retry_at`; its cursor stays."""
    return replace(verdict, state=State.SCHEDULED, retry_at=retry_at)


def _dead(claimed: Claimed, verdict: Verdict, now: datetime) -> Verdict:
    """No attempt is left. A manual run is no beat, so that it does not add to the streak."""
    is_manual = claimed.run.cause is Cause.MANUAL
    streak = claimed.failure_streak + (0 if is_manual else 1)
    return _settled(claimed, replace(verdict, is_dead=True, failure_streak=streak), now)


def _settled(claimed: Claimed, verdict: Verdict, now: datetime) -> Verdict:
    """The beat, or the manual run, is over: on to the next one. `verdict.state` is for no next."""
    end = _BeatEnd(verdict.run_state, verdict.state, verdict.failure_streak, verdict.is_dead)
    course = _find_continuation(claimed, end, now)
    return replace(verdict, **course._asdict())


class _BeatEnd(NamedTuple):
    """How a beat was settled; `last` is where the job rests if nothing is to come."""

    run_state: RunState
    last: State
    failure_streak: int = 0
    is_dead: bool = False


_DONE = _BeatEnd(RunState.COMPLETED, State.COMPLETED)


class _Continuation(NamedTuple):
    """Where the job rests and what it waits for: fields of the Verdict, in their order."""

    state: State
    moves_cursor: bool = False
    next_beat_at: datetime | None = None
    missed: MissedBeats | None = None


def _find_continuation(claimed: Claimed, end: _BeatEnd, now: datetime) -> _Continuation:
    if not claimed.definition.timetable.schedule.is_recurring:
        return _find_one_off_continuation(claimed, end)
    if claimed.run.cause is MANUAL and claimed.next_beat_at is not None:
        return _Continuation(_at_rest(claimed, end))
    if end.is_dead and claimed.definition.policy.after_failure is AfterFailure.STOP:
        return _Continuation(State.FAILED, moves_cursor=True)
    # A manual run of a job without a cursor is the retry of one that was stopped, cancelled or
    # at its end: the schedule is taken up again, and nothing lies behind it.
    next_beat_at, missed = find_next_beat(claimed, end.run_state, now)
    if next_beat_at is not None:
        return _Continuation(_at_rest(claimed, end), True, next_beat_at, missed)
    return _Continuation(State.FAILED if end.is_dead else State.COMPLETED, True, None, missed)


def _find_one_off_continuation(claimed: Claimed, end: _BeatEnd) -> _Continuation:
    run, cursor = claimed.run, claimed.next_beat_at
    if run.beat_at is not None and (cursor is None or cursor <= run.beat_at):
        return _Continuation(end.last, moves_cursor=True)
    if cursor is None:
        return _Continuation(end.last)
    # Run by hand ahead of its time, or owed from before an edit: its own beat still comes.
    return _Continuation(State.FAILED if end.is_dead else State.PENDING)


def _at_rest(claimed: Claimed, end: _BeatEnd) -> State:
    """Where a recurring job that has a next beat waits for it."""
    if end is _DONE:
        return State.SCHEDULED
    limit = claimed.definition.policy.pause_after_failures
    has_failed_again = end.failure_streak > claimed.failure_streak
    if limit is not None and has_failed_again and end.failure_streak >= limit:
        return State.PAUSED
    # Only success clears a failure: a beat that was skipped or given up says nothing.
    return State.FAILED if end.is_dead or end.failure_streak else State.SCHEDULED
