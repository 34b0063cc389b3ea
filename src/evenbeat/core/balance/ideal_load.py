"""Levels: how high the load would be if it were even, on top of the load that cannot move."""

import numpy as np

from evenbeat.core.balance.model import MINUTE_S, WEEK_S
from evenbeat.core.balance.phase_grid import Numbers
from evenbeat.core.balance.ring import Counts, LoadRing
from evenbeat.core.balance.window_mask import open_minutes


def water_level(fixed: Numbers, more: float) -> float:
    """The level that so many more runs would reach, spread over the fixed load like water."""
    if more <= 0:
        return 0.0
    ground = np.sort(fixed)
    room_below = np.arange(1, len(ground) + 1) * ground - np.cumsum(ground)
    covered = int(np.searchsorted(room_below, more, side="right"))
    covered = min(max(covered, 1), len(ground))
    return float((more + ground[:covered].sum()) / covered)


def count_unavoidable_runs(ring: LoadRing, bin_s: int) -> int:
    """Runs that every bin gets wherever the phases lie: of intervals that fit into a bin."""
    return sum(
        count * (bin_s // interval)
        for (interval, window), count in ring.rhythms.items()
        if window is None and interval <= bin_s
    )


def spread_window_load(ring: LoadRing, bin_s: int) -> Numbers:
    """What windows hold, spread evenly over them: it cannot leave them."""
    held = np.zeros(WEEK_S // bin_s)
    for window, runs in ring.windowed.items():
        is_open = open_minutes(window, ring.start_s).reshape(-1, bin_s // MINUTE_S).mean(1)
        held += is_open * (runs / max(1e-9, float(is_open.sum())))
    return held


def even_level(load: Counts, fixed: Numbers, tolerance: float) -> Numbers:
    """What each bin may hold when the load is even but for the tolerance."""
    level = water_level(fixed, float(load.sum() - fixed.sum()))
    # A bin holds whole runs: a fiftieth of ten runs would allow none.
    return np.maximum(fixed, max(np.ceil(level - 1e-9), np.floor(level * (1 + tolerance))))
