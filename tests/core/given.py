"""Jobs and runs for these tests: midnight is the beat, and every hour has one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from evenbeat.core.jobs.model import Cause, Claimed, Definition, Job, OpenRun, Policy, Pulse, State
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.timetable import Timetable, TimetableBounds

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
UID = UUID(int=1)


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return MIDNIGHT + timedelta(hours=hour, minutes=minute, seconds=second)


def every(interval: timedelta, **bounds: Any) -> Timetable:
    return Timetable(Every(interval, phase=timedelta(0)), TimetableBounds(**bounds))


HOURLY = every(HOUR)
ONCE = Timetable(Once(MIDNIGHT))


def definition(timetable: Timetable = HOURLY, **policy: Any) -> Definition:
    return Definition("echo", timetable, policy=Policy(**policy))


def claimed(
    timetable: Timetable = HOURLY,
    cause: Cause = Cause.SCHEDULE,
    *,
    attempt: int = 1,
    started_at: datetime = MIDNIGHT,
    facts: dict[str, Any] | None = None,
    **policy: Any,
) -> Claimed:
    """A run of the beat at midnight; a manual run in the middle of the night before."""
    is_manual = cause is Cause.MANUAL
    run = OpenRun(7, 7, cause, None if is_manual else MIDNIGHT, attempt, started_at, token=99)
    job = Claimed(1, UID, definition(timetable, **policy), run, MIDNIGHT, 1, runs_so_far=0)
    return replace(job, **(facts or {}))


def job(state: State, timetable: Timetable = HOURLY, **pulse: Any) -> Job:
    return Job(1, UID, definition(timetable), Pulse(state, **pulse), 1, MIDNIGHT, MIDNIGHT)
