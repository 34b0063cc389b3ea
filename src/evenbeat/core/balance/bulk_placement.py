"""Placing many jobs at once, which is better than one after another."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import numpy as np

from evenbeat.core.balance.ideal_load import count_unavoidable_runs, even_level, spread_window_load
from evenbeat.core.balance.leveling import lower_peak, lower_to_level
from evenbeat.core.balance.model import SLOT_S, WEEK_S, JobLoad, Placement
from evenbeat.core.balance.phase_grid import Numbers
from evenbeat.core.balance.phase_search import place_job, placement_at_phase
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.score import measure_score
from evenbeat.core.time.schedules.base.window import Window


def place_jobs(ring: LoadRing, loads: Iterable[JobLoad], now: datetime) -> list[Placement]:
    """Place many at once, in the order that leaves most choice; answers in the order of the loads.

    Then jobs above the peak are moved again: none of these jobs has begun, so moves cost nothing.
    """
    given = list(loads)
    held = ring.slot.astype(np.float64) - _unavoidable_load(ring)
    placed: dict[int, Placement] = {}
    new: list[JobLoad] = []
    for i in _order(given):
        placed[i] = place_job(ring, given[i], now)
        if not given[i].is_pinned:
            new.append(replace(given[i], job=i, phase_s=placed[i].phase_s))
    fixed = held + _unavoidable_load(ring)
    level = even_level(ring.slot, fixed, 0.0)
    for load in _improve_placement(ring, new, level, now):
        moved = placement_at_phase(ring, load, now)
        placed[load.job] = replace(moved, job=given[load.job].job)
    return [placed[i] for i in range(len(given))]


def _order(loads: list[JobLoad]) -> list[int]:
    """Those with least choice first: slack, then short intervals, which meet more of the week.

    With windows no order is right: the first jobs take the only slots that later ones could use.
    There jobs of all kinds take turns, in proportion to how many there are of each kind.
    """
    kinds = Counter((load.interval_s, load.window) for load in loads)
    has_windows = any(window for _, window in kinds)
    seen: Counter[tuple[int, Window | None]] = Counter()
    keys: list[tuple[bool, float, int, int]] = []
    for load in loads:
        kind = load.interval_s, load.window
        turn = (seen[kind] + 0.5) / kinds[kind] if has_windows else 0.0
        seen[kind] += 1
        keys.append((not load.is_pinned, turn, load.interval_s, -load.cost_s))
    return sorted(range(len(loads)), key=keys.__getitem__)


def _improve_placement(
    ring: LoadRing, loads: list[JobLoad], level: Numbers, now: datetime
) -> list[JobLoad]:
    """Do what a rebalance would, then take the peak down by a run at a time: where each job is."""
    at = {load.job: load for load in loads}
    _keep_if_better(ring, at, lower_peak(ring, at.values(), level, now))
    step = max(1, int(ring.slot.max()) // 100)
    while step and (ring.slot > level).any():
        peak = ring.slot.max()
        goal = np.maximum(level, peak - step)
        _keep_if_better(ring, at, lower_to_level(ring, at.values(), goal, now))
        # What evens the week at the same peak could go on for long, and is not what this is for.
        if ring.slot.max() == peak:
            step //= 4
    _keep_if_better(ring, at, lower_peak(ring, at.values(), level, now))
    return list(at.values())


def _keep_if_better(
    ring: LoadRing, at: dict[int, JobLoad], moves: Iterable[tuple[JobLoad, JobLoad]]
) -> bool:
    """Make these moves if they lower the peak, or even the week at the same peak.

    What does neither is taken back: the next rebalance would undo it.
    """
    before = measure_score(ring, WEEK_S)
    moved = list(moves)
    after = measure_score(ring, WEEK_S)
    if (after.peak, -after.score) < (before.peak, -before.score):
        at |= {new.job: new for _, new in moved}
        return True
    for old, new in moved:
        ring.remove(new)
        ring.add(old)
    return False


def _unavoidable_load(ring: LoadRing) -> Numbers:
    """The part of the load that no choice of phases changes."""
    return count_unavoidable_runs(ring, SLOT_S) + spread_window_load(ring, SLOT_S)
