"""Placing many jobs at once, which is better than one after another."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import numpy as np

from evenbeat.core.balance.grid import Numbers
from evenbeat.core.balance.level import bound, even_level, forced
from evenbeat.core.balance.model import SLOT_S, Load, Placement
from evenbeat.core.balance.place import place, placement_of
from evenbeat.core.balance.relief import reach_level
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.schedules.clockwork.window import Window


def place_all(ring: LoadRing, loads: Iterable[Load], now: datetime) -> list[Placement]:
    """Place many at once, in the order that leaves most choice; answers in the order of the loads.

    What then still stands out is put right: none of these jobs has begun, so moves are free.
    """
    given = list(loads)
    held = ring.slot.astype(np.float64) - _no_choice(ring)
    placed: dict[int, Placement] = {}
    new: list[Load] = []
    for i in _order(given):
        placed[i] = place(ring, given[i], now)
        if not given[i].is_pinned:
            new.append(replace(given[i], job=i, phase_s=placed[i].phase_s))
    fixed = held + _no_choice(ring)
    level = even_level(ring.slot, fixed, 0.0)
    for load in _put_right(ring, new, level, now):
        moved = placement_of(ring, load, now)
        placed[load.job] = replace(moved, job=given[load.job].job)
    return [placed[i] for i in range(len(given))]


def _order(loads: list[Load]) -> list[int]:
    """Those with least choice first: slack, then short intervals, which meet more of the week.

    Under windows no order is right: whoever is first takes from the others what they cannot do
    without. There all kinds come in turn, each as often as there are many of it.
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


def _put_right(ring: LoadRing, loads: list[Load], level: Numbers, now: datetime) -> list[Load]:
    """Take the peak down, by a hundredth and in the end by a run at a time, and say who is where.

    Only what lowers the peak is kept.
    """
    at = {load.job: load for load in loads}
    peak = int(ring.slot.max())
    step = max(1, peak // 100)
    while (ring.slot > level).any():
        moves = list(reach_level(ring, at.values(), np.maximum(level, peak - step), now))
        if ring.slot.max() < peak:
            at |= {new.job: new for _, new in moves}
            peak = int(ring.slot.max())
            continue
        for old, new in moves:
            ring.remove(new)
            ring.add(old)
        if step == 1:
            break
        step = max(1, step // 4)
    return list(at.values())


def _no_choice(ring: LoadRing) -> Numbers:
    """What no choice of phases changes."""
    return forced(ring, SLOT_S) + bound(ring, SLOT_S)
