"""When a job runs first: after it is written, edited, resumed or enabled."""

from dataclasses import dataclass, replace
from datetime import datetime

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import Definition, State
from evenbeat.core.time.schedules.base.instants import RESOLUTION
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.timetable import Timetable


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What a new job begins with: its timetable with everything decided, and its first beat."""

    timetable: Timetable
    first_beat: datetime
    state: State


def plan_job(timetable: Timetable, now: datetime) -> JobPlan:
    """The plan of a new job. One that would never run is refused."""
    planned = timetable.planned_at(now)
    beat = first_beat(planned, now)
    if beat is None:
        raise InvalidInput("schedule", "has no beat left: nothing would ever run")
    return JobPlan(planned, beat, find_waiting_state(planned))


class JobPlans:
    """Plans jobs at one instant. Jobs with the same timetable share a plan."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._by_timetable: dict[Timetable, JobPlan] = {}
        # By identity, which is quick to compare: the definitions outlive this object.
        self._by_identity: dict[int, JobPlan] = {}

    def plan(self, definition: Definition) -> JobPlan:
        if definition.name is not None:
            return self._plan_timetable(seeded_timetable(definition))
        plan = self._by_identity.get(id(definition.timetable))
        if plan is None:
            plan = self._plan_timetable(definition.timetable)
            self._by_identity[id(definition.timetable)] = plan
        return plan

    def _plan_timetable(self, timetable: Timetable) -> JobPlan:
        plan = self._by_timetable.get(timetable)
        if plan is None:
            plan = self._by_timetable[timetable] = plan_job(timetable, self._now)
        return plan


def seeded_timetable(definition: Definition) -> Timetable:
    """The timetable with what the job's name decides: the H fields of a cron schedule."""
    if definition.name is None:
        return definition.timetable
    return definition.timetable.seeded(definition.name)


def first_beat(timetable: Timetable, now: datetime) -> datetime | None:
    """The first beat of a new job; it belongs to `timetable.planned_at(now)`, which is stored.

    An instant that has passed is due at once.
    """
    planned = timetable.planned_at(now)
    if isinstance(planned.schedule, Once):
        return planned.next_after(planned.schedule.at - RESOLUTION)
    return planned.next_after(now)


def initial_state(definition: Definition) -> State:
    """Where a job waits that has not run yet, or is to run again."""
    return find_waiting_state(definition.timetable)


def find_waiting_state(timetable: Timetable) -> State:
    return State.SCHEDULED if timetable.schedule.is_recurring else State.PENDING


def keep_phase(timetable: Timetable, stored: Timetable, now: datetime) -> Timetable:
    """What `timetable` is for a job that has `stored`: at the same place, if it says the same.

    The schedule `now`, written again, stays the instant that it became then, once that has passed.
    """
    if timetable.schedule == stored.schedule:
        is_kept = timetable.within == stored.within
        return replace(timetable, place=stored.place if is_kept else None).planned_at(now)
    then = stored.schedule.at if isinstance(stored.schedule, Once) else None
    if then is None or then > now or timetable.schedule.planned_at(then) != stored.schedule:
        return timetable.planned_at(now)
    return replace(timetable, schedule=stored.schedule)


def find_beat_after_edit(
    timetable: Timetable, now: datetime, *, runs_so_far: int = 0, is_owed: bool = True
) -> datetime | None:
    """The first beat of a job that was edited, by its new timetable.

    A job that `is_owed` a beat gets one even for an instant that has passed. One whose beat is in
    hand, is still being tried or is over does not: that would be a second run.
    """
    if is_owed and not timetable.schedule.is_recurring:
        return first_beat(timetable, now)
    return timetable.planned_at(now).next_after(now, runs_so_far)


def find_beat_after_pause(
    cursor: datetime | None, timetable: Timetable, now: datetime, *, runs_so_far: int = 0
) -> datetime | None:
    """The cursor of a job that is resumed or enabled.

    A recurring job goes on in its rhythm at the first beat after now: the beats of the pause are
    missed (`actions.find_passed_beats`). A one-off job is still owed its only beat.
    """
    if not timetable.schedule.is_recurring:
        return cursor
    return timetable.planned_at(now).next_after(now, runs_so_far)
