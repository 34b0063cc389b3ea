"""When a job runs first: after it is written, edited, resumed or enabled."""

from dataclasses import replace
from datetime import datetime

from evenbeat.core.model import Definition, State
from evenbeat.core.schedules.clockwork.instants import RESOLUTION
from evenbeat.core.schedules.every import Every
from evenbeat.core.schedules.once import Once
from evenbeat.core.timetable import Timetable


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
    return State.SCHEDULED if definition.timetable.schedule.is_recurring else State.PENDING


def replan(
    timetable: Timetable, now: datetime, *, runs_so_far: int = 0, is_owed: bool = True
) -> datetime | None:
    """The first beat of a job that was edited, by its new timetable.

    A job that `is_owed` a beat gets one even for an instant that has passed. One whose beat is in
    hand, is still being tried or is over does not: that would be a second run.
    """
    if is_owed and not timetable.schedule.is_recurring:
        return first_beat(timetable, now)
    return timetable.planned_at(now).next_after(now, runs_so_far)


def placed_like(timetable: Timetable, was: Timetable) -> Timetable:
    """This timetable, in the phase of the one before if it has the same interval and no other."""
    new, old = timetable.schedule, was.schedule
    if not isinstance(new, Every) or not isinstance(old, Every) or new.phase is not None:
        return timetable
    return replace(timetable, schedule=old) if new.interval == old.interval else timetable


def resume(
    cursor: datetime | None, timetable: Timetable, now: datetime, *, runs_so_far: int = 0
) -> datetime | None:
    """The cursor of a job that is resumed or enabled.

    The beats of the pause are nobody's loss: a recurring job falls into its rhythm again at the
    first beat after now, and only a one-off job is still owed its only beat.
    """
    if not timetable.schedule.is_recurring:
        return cursor
    return timetable.planned_at(now).next_after(now, runs_so_far)
