"""What each action of a person does to a job's pulse, once the transition table allows it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.jobs import lifecycle, planning
from evenbeat.core.jobs.catchup import PassedBeats
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Cause, Definition, Pulse, State
from evenbeat.core.time.schedules.base.instants import RESOLUTION
from evenbeat.core.time.timetable import Timetable

SUSPENDED_STATES = (State.PAUSED, State.DISABLED)
EDITED_REASON = "the schedule was edited before they were run"
SUSPENDED_REASONS: Mapping[State, str] = {
    State.PAUSED: "the job was paused",
    State.DISABLED: "the job was disabled",
}


@dataclass(frozen=True, slots=True)
class JobChange:
    """What is stored of a job after an action.

    `is_replanned`: a run in hand must not write the cursor that follows from the old plan.
    `passed` are beats that will not be run: of a pause, or of a timetable that was replaced.
    """

    pulse: Pulse
    definition: Definition | None = None
    is_replanned: bool = False
    passed: PassedBeats | None = None


def find_allowed_actions(pulse: Pulse) -> tuple[str, ...]:
    """What people may do to the job now."""
    return lifecycle.allowed_actions(pulse.state, has_next=pulse.has_next, heading=pulse.heading)


def check_action(action: Action, pulse: Pulse) -> None:
    """Raise IllegalTransition unless the table allows it."""
    lifecycle.check_transition(action, pulse.state, has_next=pulse.has_next, heading=pulse.heading)


def perform_action(
    action: Action, pulse: Pulse, definition: Definition | None, now: datetime
) -> JobChange:
    """What an action without arguments does to a pulse.

    `definition` is None where this version cannot read it. Such a job can be paused, disabled,
    ended and edited, but nothing can be planned for it.
    """
    check_action(action, pulse)
    return _ACTS[action](pulse, definition, now)


def edit_job(pulse: Pulse, was: Definition | None, to: Definition, now: datetime) -> JobChange:
    """The job with another definition: no beat is lost by that, and none is run twice.

    An unchanged timetable keeps its phase and its cursor. By a changed one, a beat that is in
    hand or overdue stays owed as it is, as a try that waits, and the cursor goes on by the new
    timetable. Only the one beat of a one-off job is moved, since it has no other. What is over is
    not brought back.
    """
    check_action(Action.EDIT, pulse)
    if was is not None:
        to = replace(to, timetable=planning.keep_phase(to.timetable, was.timetable, now))
    if pulse.state is State.BLOCKED:
        # Its new group decides whether there is room.
        pulse = replace(pulse, state=pulse.resting or State.SCHEDULED)
    if was is not None and to.timetable == was.timetable:
        return JobChange(pulse, to)
    to = replace(to, timetable=to.timetable.planned_at(now))
    if is_finished(pulse):
        return JobChange(pulse, to)
    edited = _replan_pulse(pulse, was, to, now)
    passed = None
    if was is not None and not _is_beat_moved(was, to):
        owing = replace(edited, next_beat_at=pulse.next_beat_at)
        passed = find_passed_beats(owing, was.timetable, now, pulse.resting)
    return JobChange(edited, to, is_replanned=True, passed=passed)


def is_finished(pulse: Pulse) -> bool:
    """Nothing is in hand, and nothing is to come by itself."""
    if pulse.state is State.RUNNING:
        return False
    return pulse.state in (State.COMPLETED, State.CANCELLED) or not pulse.has_next


def _replan_pulse(pulse: Pulse, was: Definition | None, to: Definition, now: datetime) -> Pulse:
    in_hand = is_beat_in_hand(pulse)
    if was is not None and _is_beat_moved(was, to) and not in_hand:
        pulse = replace(pulse, retry_at=None, attempt=0)
    elif is_owed(pulse, now) and not in_hand and pulse.retry_at is None:
        pulse = replace(pulse, retry_at=pulse.next_beat_at, beat_at=pulse.next_beat_at, attempt=0)
    is_begun = in_hand or pulse.retry_at is not None
    next_beat_at = planning.find_beat_after_edit(
        to.timetable,
        now,
        runs_so_far=pulse.runs_so_far + is_begun,
        is_owed=not is_begun and pulse.has_next,
    )
    if next_beat_at is None and not is_begun and pulse.state is not State.RUNNING:
        raise InvalidInput("schedule", "has no beat left: nothing would ever run")
    pulse = replace(pulse, next_beat_at=next_beat_at)
    if pulse.resting in SUSPENDED_STATES or pulse.state is State.FAILED:
        return pulse
    waiting = planning.initial_state(to)
    if pulse.state is State.RUNNING:
        return replace(pulse, resting=waiting)
    return at_rest(pulse, waiting if pulse.retry_at is None else State.SCHEDULED)


def _is_beat_moved(was: Definition, to: Definition) -> bool:
    """Whether the job was and stays a one-off job: its only beat then moves."""
    return not (was.timetable.schedule.is_recurring or to.timetable.schedule.is_recurring)


def find_passed_beats(
    pulse: Pulse, timetable: Timetable, until: datetime, state: State | None
) -> PassedBeats | None:
    """The beats of `timetable` from the cursor until `until`, of a job whose cursor moves on.

    A beat that is still being tried, or stays owed, is not among them. If a beat is in hand, the
    end of its run records the beats that follow it. `state` is where the job rested: if it was
    neither paused nor disabled, an edit passes its beats over.
    """
    cursor = pulse.next_beat_at
    if cursor is None or cursor > until or is_beat_in_hand(pulse):
        return None
    is_tried = pulse.retry_at is not None and pulse.beat_at == cursor
    reason = SUSPENDED_REASONS.get(state, EDITED_REASON) if state else EDITED_REASON
    return PassedBeats(timetable, cursor if is_tried else cursor - RESOLUTION, until, reason)


def is_beat_in_hand(pulse: Pulse) -> bool:
    return pulse.state is State.RUNNING and pulse.cause is not Cause.MANUAL


def is_owed(pulse: Pulse, now: datetime) -> bool:
    """Whether its beat is overdue. The beats of a pause are not."""
    cursor = pulse.next_beat_at
    return cursor is not None and cursor <= now and pulse.resting not in SUSPENDED_STATES


def at_rest(pulse: Pulse, state: State) -> Pulse:
    return replace(pulse, state=state, resting=state)


def _run(pulse: Pulse, definition: Definition | None, now: datetime) -> JobChange:
    del definition
    if pulse.retry_at is not None and pulse.resting not in SUSPENDED_STATES:
        # The beat that is being tried comes forward, instead of a run beside it.
        return JobChange(replace(pulse, retry_at=min(pulse.retry_at, now)))
    manual_at = min(pulse.manual_at or now, now)
    return JobChange(replace(pulse, manual_at=manual_at, manual_attempt=0))


def _suspend(state: State, pulse: Pulse, definition: Definition | None, now: datetime) -> JobChange:
    del definition, now
    if pulse.state is State.RUNNING:
        return JobChange(replace(pulse, wanted=state))
    # A run by hand that waits does not run either. Where nothing else is to come, it is still
    # owed once the job takes part again.
    next_beat_at = pulse.next_beat_at if pulse.has_next else pulse.manual_at
    return JobChange(replace(at_rest(pulse, state), next_beat_at=next_beat_at, manual_at=None))


def _resume(pulse: Pulse, definition: Definition | None, now: datetime) -> JobChange:
    pulse = replace(pulse, wanted=None)
    if pulse.resting not in SUSPENDED_STATES:
        return JobChange(pulse)
    definition = _require_definition(definition)
    timetable, passed = definition.timetable, None
    if timetable.schedule.is_recurring:
        passed = find_passed_beats(pulse, timetable, now, pulse.resting)
    next_beat_at = planning.find_beat_after_pause(
        pulse.next_beat_at, timetable, now, runs_so_far=pulse.runs_so_far
    )
    # The plan is the same one, gone on with. Only a run by hand that is in hand must be kept from
    # writing what follows from the cursor it knows.
    is_replanned = pulse.state is State.RUNNING and next_beat_at != pulse.next_beat_at
    pulse = replace(pulse, next_beat_at=next_beat_at)
    resting = planning.initial_state(definition)
    if not pulse.has_next and pulse.manual_at is None:
        resting = State.FAILED if pulse.failure_streak else State.COMPLETED
    is_away = pulse.state in (State.RUNNING, State.BLOCKED)
    pulse = replace(pulse, resting=resting) if is_away else at_rest(pulse, resting)
    return JobChange(pulse, is_replanned=is_replanned, passed=passed)


def _retry(pulse: Pulse, definition: Definition | None, now: datetime) -> JobChange:
    pulse = replace(pulse, manual_at=now, manual_attempt=0)
    return JobChange(at_rest(pulse, planning.initial_state(_require_definition(definition))))


def _cancel(pulse: Pulse, definition: Definition | None, now: datetime) -> JobChange:
    del definition, now
    # Replanned, with no beat. A retry by hand begins another plan.
    if pulse.state is State.RUNNING:
        return JobChange(replace(pulse, wanted=State.CANCELLED), is_replanned=True)
    return JobChange(_clear_due_times(at_rest(pulse, State.CANCELLED)), is_replanned=True)


def _delete(pulse: Pulse, definition: Definition | None, now: datetime) -> JobChange:
    if pulse.state in (State.COMPLETED, State.FAILED):
        # Its history says how it ended.
        return JobChange(_clear_due_times(pulse))
    return _cancel(pulse, definition, now)


def _clear_due_times(pulse: Pulse) -> Pulse:
    """Nothing is left that could bring the job back by itself."""
    return replace(pulse, next_beat_at=None, retry_at=None, manual_at=None)


def _require_definition(definition: Definition | None) -> Definition:
    if definition is None:
        raise Conflict("the definition of the job cannot be read: edit it first")
    return definition


_Act = Callable[[Pulse, Definition | None, datetime], JobChange]
_ACTS: Mapping[Action, _Act] = {
    Action.RUN: _run,
    Action.PAUSE: partial(_suspend, State.PAUSED),
    Action.RESUME: _resume,
    Action.RETRY: _retry,
    Action.CANCEL: _cancel,
    Action.ENABLE: _resume,
    Action.DISABLE: partial(_suspend, State.DISABLED),
    Action.DELETE: _delete,
}
