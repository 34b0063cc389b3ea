"""The load ring: what the coming week holds, per slot, minute and second.

A job of interval T at phase p starts at p, p + T, p + 2T …: its footprint. The ring is the sum of
all footprints, and whole numbers throughout, so that taking one out leaves it as if the job had
never been there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.balance.model import (
    HOUR_S,
    MINUTE_S,
    SLOT_S,
    WEEK_MINUTES,
    WEEK_S,
    WEEK_SLOTS,
    JobLoad,
    instant_of,
    seconds_of,
)
from evenbeat.core.balance.phase_grid import build_minute_grid, is_drifting
from evenbeat.core.balance.window_mask import Mask, open_minutes, opening_seconds
from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.window import Window

Counts = NDArray[np.int64]

# Ten years, the longest interval, are 522 weeks.
_FAR_WEEKS = 524


@dataclass(frozen=True, slots=True)
class IntervalArrays:
    """Interval jobs without windows, as columns: what `group by` gives for a million jobs."""

    interval_s: Counts
    phase_s: Counts
    cost_s: Counts
    count: Counts

    @classmethod
    def from_loads(cls, loads: Sequence[JobLoad]) -> Self:
        columns = np.array(
            [(load.interval_s, _placed(load), load.cost_s, 1) for load in loads], np.int64
        ).reshape(-1, 4)
        return cls(*columns.T)


class LoadRing:
    """One week from a whole slot on. The code that places jobs owns it, and adds what it placed.

    `second`, `minute` and `slot` count starts, `busy` the seconds of work in each minute, `jobs`
    the jobs that start in each hour. `pinned` and `pinned_minute` are the part of `slot` and
    `minute` that cannot move, `rhythms` how many jobs have each interval and window,
    `windowed` the starts of the week that each window holds, `far` how many jobs of more than a
    week start in each of the weeks to come, `drifting` how many jobs of an interval that is no
    part of a week begin in each minute of it, where any does: there may be thousands of intervals.
    """

    def __init__(self, now: datetime) -> None:
        self.start_s = seconds_of(now) // SLOT_S * SLOT_S
        self.second = np.zeros(WEEK_S, np.int32)
        self.minute = np.zeros(WEEK_MINUTES, np.int64)
        self.slot = np.zeros(WEEK_SLOTS, np.int64)
        self.busy = np.zeros(WEEK_MINUTES, np.int64)
        self.jobs = np.zeros(WEEK_S // HOUR_S, np.int64)
        self.pinned = np.zeros(WEEK_SLOTS, np.int64)
        self.pinned_minute = np.zeros(WEEK_MINUTES, np.int64)
        self.rhythms: Counter[tuple[int, Window | None]] = Counter()
        self.windowed: Counter[Window] = Counter()
        self.far = np.zeros(_FAR_WEEKS, np.int64)
        self.drifting: dict[int, Counter[int]] = {}
        self.job_count = 0

    @property
    def start_at(self) -> datetime:
        return instant_of(self.start_s)

    def copy(self) -> Self:
        twin = copy(self)
        for name, part in vars(self).items():
            if isinstance(part, np.ndarray | Counter):
                setattr(twin, name, part.copy())
        twin.drifting = {interval: own.copy() for interval, own in self.drifting.items()}
        return twin

    # --- one job --------------------------------------------------------------------------------

    def add(self, load: JobLoad) -> None:
        self._apply(load, 1)

    def remove(self, load: JobLoad) -> None:
        self._apply(load, -1)

    def _apply(self, load: JobLoad, sign: int) -> None:
        starts = self.starts_of(load)
        for bins in (self.second, self.minute, self.slot):
            self._apply_starts(bins, load, starts, sign)
        self._apply_job(load, starts, sign)
        self._apply_busy(starts, load.cost_s, sign)
        self.job_count += sign
        if load.window is None and is_drifting(load.interval_s):
            block = build_minute_grid(load.interval_s).block_of(self.offset_of(load))
            self._apply_drifting(load.interval_s, {block: sign})
        if load.is_pinned or load.is_fixed:
            self._apply_starts(self.pinned, load, starts, sign)
            self._apply_starts(self.pinned_minute, load, starts, sign)
            return
        self.rhythms[load.interval_s, load.window] += sign
        if load.window is not None:
            self.windowed[load.window] += sign * len(starts)
        if load.interval_s > WEEK_S:
            self.far[self.offset_of(load) // WEEK_S] += sign

    def _apply_starts(
        self, bins: Counts | NDArray[np.int32], load: JobLoad, starts: Counts, sign: int
    ) -> None:
        bin_s = WEEK_S // len(bins)
        is_even = not load.is_pinned and load.window is None and load.interval_s % bin_s == 0
        if is_even and len(starts):
            # One in every so many bins: a slice takes a fifth of the time.
            bins[starts[0] // bin_s :: load.interval_s // bin_s] += sign
        else:
            np.add.at(bins, starts // bin_s, sign)

    def _apply_job(self, load: JobLoad, starts: Counts, sign: int) -> None:
        if load.is_pinned or load.window is not None:
            np.add.at(self.jobs, np.unique(starts // HOUR_S), sign)
        elif load.interval_s < HOUR_S:
            self.jobs += sign
        else:
            np.add.at(self.jobs, starts // HOUR_S, sign)

    def _apply_busy(self, starts: Counts, cost_s: int, sign: int) -> None:
        # A run that lasts beyond the end of the week is at its beginning as well: the week
        # stands for every week.
        into = starts % MINUTE_S
        passed = np.arange(0, int(into.max(initial=0)) + cost_s, MINUTE_S)
        ends = np.minimum(into[:, None] + cost_s - passed, MINUTE_S)
        share = (ends - np.maximum(into[:, None] - passed, 0)).clip(0)
        places = (starts[:, None] + passed) // MINUTE_S % WEEK_MINUTES
        np.add.at(self.busy, places, sign * share)

    def _apply_drifting(self, interval_s: int, more: Mapping[int, int]) -> None:
        own = self.drifting.setdefault(interval_s, Counter())
        for block, count in more.items():
            own[block] += count
            if not own[block]:
                del own[block]
        if not own:
            del self.drifting[interval_s]

    def least_drifting(self, interval_s: int) -> Mask:
        """Which minutes of a drifting interval have fewest jobs of the same."""
        own = self.drifting[interval_s]
        counts = np.zeros(len(build_minute_grid(interval_s).starts), np.int64)
        counts[list(own)] = list(own.values())
        return counts == counts.min()

    def offset_of(self, load: JobLoad) -> int:
        """How long after the start of the ring the job beats first."""
        return (_placed(load) - self.start_s) % load.interval_s

    def starts_of(self, load: JobLoad) -> Counts:
        """When the job starts, in seconds of the ring: its footprint."""
        if load.is_pinned:
            starts = np.array(load.pinned_at, np.int64) + (load.phase_s or 0) - self.start_s
            return starts[(starts >= 0) & (starts < WEEK_S)]
        starts = np.arange(self.offset_of(load), WEEK_S, load.interval_s, dtype=np.int64)
        if load.window is None:
            return starts
        return self.inside(starts, load.window)

    def inside(self, starts: Counts, window: Window) -> Counts:
        """What a window leaves of these starts: those outside are skipped or wait for it to open.

        What waits at one opening is one run, as in a timetable.
        """
        is_open = open_minutes(window, self.start_s)[starts // MINUTE_S]
        if window.outside == "skip":
            return starts[is_open]
        opened = opening_seconds(window, self.start_s)
        next_opening = np.searchsorted(opened, starts[~is_open])
        waiting = np.unique(opened[next_opening[next_opening < len(opened)]])
        return np.union1d(starts[is_open], waiting)

    # --- many jobs ------------------------------------------------------------------------------

    def add_all(self, loads: Iterable[JobLoad]) -> None:
        plain: list[JobLoad] = []
        for load in loads:
            if load.is_pinned or load.is_fixed or load.window is not None:
                self.add(load)
            else:
                plain.append(load)
        self.add_intervals(IntervalArrays.from_loads(plain))

    def add_intervals(self, rows: IntervalArrays) -> None:
        """Add as many jobs as there are, in the time that their distinct intervals take."""
        starts = np.zeros(WEEK_S, np.int64)
        ends = np.zeros(2 * WEEK_S, np.int64)
        for interval in np.unique(rows.interval_s):
            mine = rows.interval_s == interval
            count, total = rows.count[mine], int(rows.count[mine].sum())
            offset = (rows.phase_s[mine] - self.start_s) % interval
            began = _train(offset, count, int(interval), np.zeros_like(offset))
            ended = _train(offset, count, int(interval), rows.cost_s[mine])
            starts += began
            ends[: len(ended)] += ended
            self.jobs += began.reshape(-1, HOUR_S).sum(1) if interval >= HOUR_S else total
            self.rhythms[int(interval), None] += total
            if interval > WEEK_S:
                np.add.at(self.far, offset // WEEK_S, count)
            if is_drifting(int(interval)):
                blocks = np.bincount(
                    build_minute_grid(int(interval)).blocks_of(offset), weights=count
                )
                begun = np.flatnonzero(blocks)
                more = dict(zip(begun.tolist(), blocks[begun].astype(int).tolist(), strict=True))
                self._apply_drifting(int(interval), more)
        self.second += starts.astype(np.int32)
        self.minute += starts.reshape(-1, MINUTE_S).sum(1)
        self.slot += starts.reshape(-1, SLOT_S).sum(1)
        running = ends[WEEK_S:].sum() + np.cumsum(starts - ends[:WEEK_S] - ends[WEEK_S:])
        self.busy += running.reshape(-1, MINUTE_S).sum(1)
        self.job_count += int(rows.count.sum())


def _placed(load: JobLoad) -> int:
    if load.phase_s is None:
        raise InvalidInput("phase_s", f"job {load.job} has not been placed yet; place it first")
    return load.phase_s


def _train(offset: Counts, count: Counts, interval: int, delay: Counts) -> Counts:
    """How many of offset + delay + k·interval fall on each second, for starts within the week."""
    in_week = offset < WEEK_S
    offset, count, delay = offset[in_week], count[in_week], delay[in_week]
    length = WEEK_S + int(delay.max(initial=0))
    total = np.zeros(length, np.int64)
    # An offset early in the interval fits into the week once more than a late one.
    times = (WEEK_S - offset - 1) // interval + 1
    for often in np.unique(times):
        mine = times == often
        first = np.bincount(offset[mine] + delay[mine], weights=count[mine])
        stop = int(often) * interval
        rows = np.zeros(-(-length // interval) * interval if often > 1 else length, np.int64)
        rows[: len(first)] = first
        if often > 1:
            rows = rows.reshape(-1, interval).cumsum(0).ravel()[:length]
        total += rows
        if often > 1 and stop < length:
            total[stop:] -= rows[: length - stop]
    return total
