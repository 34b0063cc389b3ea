"""Previews: what a schedule will do, shown to people before they rely on it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from evenbeat.core.time.durations import describe_duration
from evenbeat.core.time.schedules.base.instants import RESOLUTION
from evenbeat.core.time.schedules.base.schedule import Schedule
from evenbeat.core.time.schedules.base.wall_clock import WallClock
from evenbeat.core.time.schedules.base.zones import ELAPSED_TIME, OffsetPeriod, offset_periods_from
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.timetable import Timetable

_YEAR = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class SchedulePreview:
    """A timetable in words, its next beats, and what the next clock change does to it."""

    kind: str
    words: str
    text: str
    zone: str
    beats: tuple[datetime, ...]
    effective_period: timedelta | None
    remark: str | None


def preview_timetable(timetable: Timetable, now: datetime, count: int) -> SchedulePreview:
    planned = timetable.planned_at(now)
    schedule = planned.schedule
    # `now` is planned as the instant it stands for, which is not later than itself.
    since = now if schedule.is_recurring else now - RESOLUTION
    if isinstance(schedule, Once):
        since = min(since, schedule.at - RESOLUTION)
    return SchedulePreview(
        kind=schedule.kind,
        words=planned.describe(),
        text=schedule.to_text(),
        zone=schedule.options().zone or "UTC",
        beats=planned.next_beats(since, count),
        effective_period=planned.effective_period(now),
        remark=_remark(schedule, now),
    )


def _remark(schedule: Schedule, now: datetime) -> str | None:
    if isinstance(schedule, Once) and schedule.at < now:
        return "This instant has passed: the job would run at once."
    return describe_clock_change(schedule, now) if isinstance(schedule, WallClock) else None


def describe_clock_change(schedule: WallClock, now: datetime) -> str | None:
    """The next clock change of the schedule's zone within a year, and what it does."""
    for stretch in offset_periods_from(now, schedule.zone):
        if stretch.starts_at > now + _YEAR:
            return None
        if stretch.starts_at > now and stretch.offset != stretch.before:
            return f"{_announce(stretch, schedule.zone)}: {_effect(schedule, stretch)}."
    return None


def _announce(stretch: OffsetPeriod, zone: str) -> str:
    way = "forward" if stretch.offset > stretch.before else "back"
    length = describe_duration(abs(stretch.offset - stretch.before))
    at = (stretch.starts_at + stretch.before).strftime("%A %-d %B %Y at %H:%M")
    return f"Clocks in {zone} go {way} {length} on {at}"


def _effect(schedule: WallClock, stretch: OffsetPeriod) -> str:
    """What becomes of the first beat inside the times that are left out or repeated."""
    pattern = schedule.pattern()
    dst = schedule.dst or pattern.dst
    edges = [
        (stretch.starts_at + by).replace(tzinfo=None) for by in (stretch.before, stretch.offset)
    ]
    wall = pattern.next_wall(min(edges) - RESOLUTION)
    if wall is None or wall >= max(edges):
        return "no beat falls into the change, and beats keep their time on the clock"
    shown = wall.strftime("%H:%M")
    if stretch.offset > stretch.before:
        following = pattern.next_wall(max(edges) - RESOLUTION)
        if dst == ELAPSED_TIME and following and following - max(edges) < max(edges) - min(edges):
            return f"beats follow elapsed time, and go on at {following:%H:%M}"
        after = f"runs right after, at {max(edges):%H:%M}"
        return (
            f"{shown} does not exist that day, and {after if dst.gap == 'after' else 'is skipped'}"
        )
    return f"{shown} comes twice that day, and runs " + (
        "the first time only" if dst.overlap == "once" else "both times"
    )
