"""The judge: one steady week of any placement, from its phases alone.

It shares nothing with the ring. A placement is the first beat of each job and the interval at which
it really runs, which for some rivals is not the one that was asked for.
"""

from dataclasses import dataclass

import numpy as np
from bench.support.balance.fleets import DAY, WEEK, WINDOWS, Column, Fleet
from numpy.typing import NDArray

from evenbeat.core.balance.model import instant_of

SLOT, MINUTE = 900, 60
GRAINS = {"slot": SLOT, "minute": MINUTE, "second": 1}


@dataclass(frozen=True)
class Placed:
    """First beats and real intervals."""

    first: Column
    interval: Column


def week_of(fleet: Fleet) -> int:
    """The week after the next: every job has begun by then."""
    return (int(fleet.created.max()) // WEEK + 2) * WEEK


def curve(first: Column, interval: Column, start: int, weight: Column | None = None) -> Column:
    """How many beats there are in each second of the week from the start."""
    total = np.zeros(WEEK, np.int64)
    for every in np.unique(interval):
        mine = interval == every
        weights = None if weight is None else weight[mine]
        beats = np.bincount((first[mine] - start) % every, weights, minlength=every)
        rounds = -(-WEEK // int(every))
        total += np.tile(beats.astype(np.int64), rounds)[:WEEK]
    return total


def bins(seconds: Column, size: int) -> Column:
    return seconds.reshape(-1, size).sum(1)


def starts(fleet: Fleet, placed: Placed, start: int) -> Column:
    """Beats per second; those outside a window do not happen, or wait for it to open."""
    free = ~fleet.is_windowed
    total = curve(placed.first[free], placed.interval[free], start)
    for i in np.flatnonzero(~free):
        window = fleet.window_of(int(i))
        every = int(placed.interval[i])
        offset = (int(placed.first[i]) - start) % every
        seen: set[int] = set()
        for beat in range(offset, WEEK, every):
            instant = instant_of(start + beat)
            if window is None or window.is_open(instant):
                seen.add(beat)
            elif window.outside == "move":
                seen.add(int((window.next_opening(instant) - instant_of(start)).total_seconds()))
        for beat in seen:
            total[beat % WEEK] += 1
    return total


def water_level(fixed: NDArray[np.float64], more: float) -> float:
    """How high water stands that is poured over the fixed load."""
    ground = np.sort(fixed)
    below = np.arange(1, len(ground) + 1) * ground - np.cumsum(ground)
    covered = int(np.clip(np.searchsorted(below, more, side="right"), 1, len(ground)))
    return float((more + ground[:covered].sum()) / covered)


def lower_bound(fleet: Fleet, start: int, size: int, total: int) -> float:
    """No placement at all has a lower peak, windows and all."""
    pin = fleet.is_pinned
    fixed = bins(curve(fleet.pinned[pin], fleet.interval[pin], start), size).astype(float)
    short = fleet.interval[~pin & ~fleet.is_windowed & (fleet.interval <= size)]
    fixed += int((size // short).sum())
    level = water_level(fixed, max(0.0, total - fixed.sum()))
    return max(float(fixed.max()), float(np.ceil(level - 1e-9)))


def peak_concurrency(fleet: Fleet, placed: Placed, start: int) -> int:
    """The most runs in progress at any second of the week (windowed jobs as if always open)."""
    began = curve(placed.first, placed.interval, start)
    ended = curve(placed.first + fleet.cost, placed.interval, start)
    before = (start - 1 - placed.first) // placed.interval
    over = (start - 1 - placed.first - fleet.cost) // placed.interval
    return int(((before - over).sum() + np.cumsum(began - ended)).max())


def judge(fleet: Fleet, placed: Placed, optimum: dict[str, float]) -> dict[str, float]:
    """Peaks, over the optimum where it is known exactly, over the lower bound elsewhere."""
    start = week_of(fleet)
    seconds = starts(fleet, placed, start)
    figures: dict[str, float] = {}
    for name, size in GRAINS.items():
        figures[f"{name} peak"] = int(bins(seconds, size).max())
        figures[f"{name} best"] = optimum[name]
    figures["concurrency"] = peak_concurrency(fleet, placed, start)
    free = ~fleet.is_pinned
    wait = (placed.first - fleet.created)[free]
    bound = fleet.is_windowed[free]
    late = (wait > fleet.interval[free]) & ~bound
    figures["late %"] = 100 * float(late.mean())
    figures["wrong interval %"] = 100 * float((placed.interval != fleet.interval).mean())
    figures["outside %"] = 100 * outside(fleet, placed)
    return figures


def outside(fleet: Fleet, placed: Placed) -> float:
    """The share of windowed daily jobs whose beats lie outside their window."""
    windowed = [i for i in np.flatnonzero(fleet.is_windowed) if fleet.interval[i] >= DAY]
    wrong = [
        not WINDOWS[fleet.window[i] or ""].is_open(instant_of(int(placed.first[i])))
        for i in windowed
    ]
    return sum(wrong) / max(1, len(wrong))
