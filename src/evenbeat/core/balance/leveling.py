"""Relief: runs that stand above a level are carried to where they stand below it, in few moves.

Each step takes the phase whose beats meet most bins above the level, and moves one of its jobs to
the phase of the same interval whose beats meet fewest full ones, as long as that pays. Jobs of one
interval and window are interchangeable, so the search is over intervals, not over jobs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import heapify, heappop, heappush
from math import gcd

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.balance.model import MINUTE_S, SLOT_S, WEEK_S, JobLoad
from evenbeat.core.balance.phase_grid import (
    Numbers,
    PhaseGrid,
    build_block_grid,
    build_minute_grid,
    find_emptiest,
)
from evenbeat.core.balance.phase_search import find_emptiest_second, find_offset_in_blocks
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.window_fit import WindowFit
from evenbeat.core.balance.window_mask import Mask, find_landing_bins

# A move pays if it takes at least one run of the week from above the level; what it saves less
# than that only decides between moves.
_PAYS = 0.5
_TIE = 1e-3


@dataclass(slots=True)
class _MovableJobs:
    """The movable jobs of one interval and window, by the block that they are in."""

    grid: PhaseGrid
    fits: Mask
    opening: WindowFit | None
    # Blocks between which jobs may move, as so many side by side; 0 is all of them.
    side_by_side: int = 0
    members: dict[int, list[JobLoad]] = field(default_factory=dict[int, list[JobLoad]])

    def like(self, block: int) -> NDArray[np.intp]:
        """The blocks that meet the same slots as this one, among which the minutes decide.

        Under a window they are single minutes, and the first of equals would get every job.
        """
        if self.opening is None:
            return np.array([block])
        is_like = (self.grid.places == self.grid.places[:, [block]]).all(0)
        return np.flatnonzero(is_like & self.fits)

    def best(self, leaving: Numbers, entering: Numbers) -> tuple[float, int, int]:
        """The move that pays most: what it pays, from which block, and to which."""
        occupied = np.fromiter(self.members, np.intp, len(self.members))
        if not len(occupied):
            return -np.inf, 0, 0
        leave = np.full(len(self.fits), -np.inf)
        leave[occupied] = self.grid.total(leaving)[occupied]
        enter = np.where(self.fits, self.grid.total(entering), np.inf)
        if not self.side_by_side:
            source, target = int(np.argmax(leave)), find_emptiest(enter)
        else:
            from_, to = (x.reshape(-1, self.side_by_side) for x in (leave, enter))
            row = int(np.argmax(from_.max(1) - to.min(1)))
            source = row * self.side_by_side + int(from_[row].argmax())
            target = row * self.side_by_side + int(to[row].argmin())
        return float(leave[source] - enter[target]), source, target


def lower_to_level(
    ring: LoadRing, loads: Iterable[JobLoad], level: Numbers, now: datetime
) -> Iterator[tuple[JobLoad, JobLoad]]:
    """Bring down to the level those slots that can be."""
    yield from Leveler(ring, level, now, bin_s=SLOT_S).moves(loads)


def lower_peak(
    ring: LoadRing, loads: Iterable[JobLoad], level: Numbers, now: datetime
) -> Iterator[tuple[JobLoad, JobLoad]]:
    """Bring the slots down to the level, or as near to it as they come.

    Where windows or intervals put the level out of reach, every bin of a busy time is full, and
    nothing seems to pay. Then the peak is taken down by a hundredth at a time.
    """
    left = {load.job: load for load in loads}
    goal = level
    while True:
        count = len(left)
        for old, new in lower_to_level(ring, list(left.values()), goal, now):
            left.pop(old.job)
            yield old, new
        above = ring.slot[ring.slot > level]
        if not len(above) or (goal is not level and len(left) == count):
            return
        peak = int(above.max())
        goal = np.maximum(level, peak - max(1, peak // 100))


class Leveler:
    """One relief of a ring: `moves` changes the ring as it goes, and says what it moved."""

    def __init__(self, ring: LoadRing, level: Numbers, now: datetime, *, bin_s: int) -> None:
        self._ring, self._level, self._now, self._bin_s = ring, level, now, bin_s
        self._rhythms: dict[object, _MovableJobs] = {}

    def moves(self, loads: Iterable[JobLoad]) -> Iterator[tuple[JobLoad, JobLoad]]:
        """Move some of these jobs, none of them twice: as it was, and as it is now."""
        for load in loads:
            self._enter(load)
        if not self._is_above():
            return
        # What a rhythm can gain mostly falls as others gain: a stale figure is an upper bound,
        # and only the rhythm on top has to be asked again.
        heap = self._all_gains()
        while heap:
            stale, number, rhythm = heappop(heap)
            if -stale < _PAYS:
                # Some may have risen meanwhile. When none has, that is the end.
                heap = sorted(entry for entry in self._all_gains() if -entry[0] >= _PAYS)
                continue
            gain, source, target = rhythm.best(*self._pressure())
            if gain >= _PAYS and (not heap or gain >= -heap[0][0] - _TIE):
                yield self._move(rhythm, source, target)
            heappush(heap, (-gain, number, rhythm))

    def _is_above(self) -> bool:
        return bool((self._load() > self._level).any())

    def _load(self) -> NDArray[np.int64]:
        return self._ring.slot if self._bin_s == SLOT_S else self._ring.minute

    def _all_gains(self) -> list[tuple[float, int, _MovableJobs]]:
        pressure = self._pressure()
        heap = [
            (-rhythm.best(*pressure)[0], number, rhythm)
            for number, rhythm in enumerate(self._rhythms.values())
        ]
        heapify(heap)
        return heap

    def _pressure(self) -> tuple[Numbers, Numbers]:
        """What leaving and entering each bin counts."""
        load = self._load()
        tie = load / np.maximum(self._level, 1) * _TIE
        return (load > self._level) + tie, (load >= self._level) + tie

    def _enter(self, load: JobLoad) -> None:
        offset = self._ring.offset_of(load)
        if (load.interval_s <= self._bin_s and load.interval_s <= MINUTE_S) or offset >= WEEK_S:
            return
        key = load.interval_s, load.window
        if key not in self._rhythms:
            self._rhythms[key] = self._rhythm(load)
        rhythm = self._rhythms[key]
        rhythm.members.setdefault(rhythm.grid.block_of(offset), []).append(load)

    def _rhythm(self, load: JobLoad) -> _MovableJobs:
        interval = load.interval_s
        opening = WindowFit.for_load(load, self._ring.start_s, self._now)
        side_by_side = 0
        if self._bin_s == MINUTE_S:
            grid = build_minute_grid(interval, MINUTE_S)
            # Within these the slots met stay the same. Where they are no whole minutes, each
            # block is alone, and nothing moves.
            side_by_side = max(1, gcd(interval, SLOT_S) // MINUTE_S)
            if interval % MINUTE_S or interval > WEEK_S:
                side_by_side = 1
        else:
            grid = build_minute_grid(interval) if opening else build_block_grid(interval)
        fits = np.ones(len(grid.starts), np.bool_)
        if opening and load.window is not None:
            fits = opening.fits(grid.starts)
            grid = grid.with_landing_bins(
                find_landing_bins(load.window, interval, self._ring.start_s, self._bin_s)
            )
        return _MovableJobs(grid, fits, opening, side_by_side)

    def _move(self, rhythm: _MovableJobs, source: int, target: int) -> tuple[JobLoad, JobLoad]:
        old = rhythm.members[source].pop()
        if not rhythm.members[source]:
            del rhythm.members[source]
        ring = self._ring
        ring.remove(old)
        if self._bin_s == MINUTE_S:
            begin, end = rhythm.grid.edges[target : target + 2].tolist()
            offset = find_emptiest_second(ring, old, (begin, end), rhythm.opening)
        else:
            blocks = rhythm.like(target)
            offset = find_offset_in_blocks(ring, old, rhythm.grid, blocks, rhythm.opening)
        new = replace(old, phase_s=(ring.start_s + offset) % old.interval_s)
        ring.add(new)
        return old, new
