"""What a window asks of a new phase: the first beat inside, and as many of the others as can be."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

import numpy as np

from evenbeat.core.balance.model import MINUTE_S, WEEK_MINUTES, WEEK_S, JobLoad, seconds_of
from evenbeat.core.balance.ring import Counts
from evenbeat.core.balance.window_mask import Mask, open_minutes


@dataclass(frozen=True, slots=True)
class WindowFit:
    """Seconds are those of the ring. The first beat later than `since_s` must be inside.

    That is now, where the window is open within an interval from now, so that the first beat comes
    within an interval. Where it is not, the first beat comes at the window's first free place.
    """

    interval_s: int
    first_s: int
    since_s: int
    minutes: Mask
    fewest_inside: int = 0

    @classmethod
    def for_load(cls, load: JobLoad, start_s: int, now: datetime) -> Self | None:
        if load.window is None:
            return None
        now_s = seconds_of(now) - start_s
        minutes = open_minutes(load.window, start_s)
        first = _first_open(minutes, now_s)
        if first is None:
            # Clock changes may leave nothing of a narrow window for a week.
            return None
        since = now_s if first - now_s <= load.interval_s else first - 1
        opening = cls(load.interval_s, first, since, minutes)
        starts = np.arange(0, min(load.interval_s, WEEK_S), MINUTE_S)
        most = int(opening.inside(starts)[opening.is_open(starts)].max(initial=0))
        # An interval that does not divide the week has a beat more or less each week.
        fewest = most - (1 if WEEK_S % load.interval_s else 0)
        return replace(opening, fewest_inside=fewest)

    def is_open(self, offsets: Counts) -> Mask:
        """Whether the first beat of each phase is inside."""
        after = self.since_s + 1
        first = after + (offsets - after) % self.interval_s
        return self.minutes[first // MINUTE_S % WEEK_MINUTES]

    def fits(self, offsets: Counts) -> Mask:
        return self.is_open(offsets) & (self.inside(offsets) >= self.fewest_inside)

    def inside(self, offsets: Counts) -> Counts:
        """How many beats of the week are inside, for each phase."""
        if self.interval_s <= MINUTE_S:
            return np.zeros(len(offsets), np.int64)
        starts = np.arange(0, WEEK_S, min(self.interval_s, WEEK_S))[:, None] + offsets
        is_open = np.concatenate([self.minutes, [False]])
        return is_open[np.minimum(starts // MINUTE_S, WEEK_MINUTES)].sum(0)


def _first_open(minutes: Mask, now_s: int) -> int | None:
    """The first second later than now that is inside."""
    if minutes[(now_s + 1) // MINUTE_S]:
        return now_s + 1
    later = np.flatnonzero(minutes[(now_s + 1) // MINUTE_S :])
    if not len(later):
        return None
    return ((now_s + 1) // MINUTE_S + int(later[0])) * MINUTE_S
