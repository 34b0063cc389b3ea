"""Footprints: what the map of the load holds of a timetable. For most jobs a few numbers."""

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache

from evenbeat.core.balance.model import UNKNOWN_COST_S, WEEK_S, JobLoad, instant_of, seconds_of
from evenbeat.core.limits import MAX_BEATS
from evenbeat.core.time.schedules.base.instants import RESOLUTION
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.timetable import Timetable

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What is counted of a job in any week.

    `interval_s` is 0 where the schedule names its instants. `timetable` is None for an interval
    that may be placed anywhere, as most may; else it is what the numbers leave out.
    """

    interval_s: int
    phase_s: int
    cost_s: int = UNKNOWN_COST_S
    timetable: Timetable | None = None

    @classmethod
    def of_timetable(cls, timetable: Timetable, cost: float | None = None) -> "Footprint":
        """Of a timetable that is planned."""
        cost_s = max(UNKNOWN_COST_S, round(cost or 0))
        bare = replace(timetable, place=None)
        phase = timetable.phase
        if not isinstance(timetable.schedule, Every) or phase is None:
            return cls(0, timetable.delay // _SECOND, cost_s, bare)
        is_plain = timetable.is_free and timetable.window is None and timetable.prefers is None
        interval_s = timetable.schedule.interval // _SECOND
        return cls(interval_s, phase // _SECOND, cost_s, None if is_plain else bare)

    def load(self, start_s: int, job: int = 0) -> JobLoad:
        """What it asks of the week from the start on."""
        timetable = self.timetable
        plain = JobLoad(job, self.interval_s, self.phase_s if self.interval_s else 0, self.cost_s)
        if timetable is None:
            return plain
        wishes = replace(plain, prefers=timetable.prefers, is_fixed=not timetable.is_free)
        if self.interval_s:
            return replace(wishes, window=timetable.window)
        return replace(
            wishes,
            phase_s=self.phase_s,
            pinned_at=find_named_seconds(timetable, start_s),
            within_s=(timetable.within or timedelta(0)) // _SECOND,
        )


# Many jobs share a schedule, and finding the beats of a cron takes some 30 µs each.
@lru_cache(maxsize=16_384)
def find_named_seconds(timetable: Timetable, start_s: int) -> tuple[int, ...]:
    """The instants of a week that the schedule names, before any slack is used."""
    start, end = instant_of(start_s), instant_of(start_s + WEEK_S)
    beats = timetable.beats_between(start - RESOLUTION, end - RESOLUTION, MAX_BEATS)
    return tuple(map(seconds_of, beats.instants))
