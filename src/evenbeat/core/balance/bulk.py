"""Placing many jobs at once, which is better than one after another."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import numpy as np

from evenbeat.core.balance.grid import Numbers
from evenbeat.core.balance.level import bound, even_level, forced
from evenbeat.core.balance.model import SLOT_S, WEEK_S, Load, Placement
from evenbeat.core.balance.place import place, placement_of
from evenbeat.core.balance.relief import lower_peak
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.score import measure


def place_all(ring: LoadRing, loads: Iterable[Load], now: datetime) -> list[Placement]:
    """Place many at once, those with least choice first; answers in the order of the loads.

    A window leaves least. A short interval has fewer phases than a long one and meets more of the
    week. What then still stands out is put right: none of these jobs has begun, so moves are free.
    """
    given = list(loads)
    held = ring.slot.astype(np.float64) - _no_choice(ring)
    placed: dict[int, Placement] = {}
    new: list[Load] = []
    for i in sorted(range(len(given)), key=lambda i: _choice(given[i])):
        placed[i] = place(ring, given[i], now)
        if not given[i].is_pinned:
            new.append(replace(given[i], job=i, phase_s=placed[i].phase_s))
    fixed = held + _no_choice(ring)
    level = even_level(ring.slot, fixed, 0.0)
    for load in _put_right(ring, new, level, now):
        moved = placement_of(ring, load, now)
        placed[load.job] = replace(moved, job=given[load.job].job)
    return [placed[i] for i in range(len(given))]


def _put_right(ring: LoadRing, loads: list[Load], level: Numbers, now: datetime) -> list[Load]:
    """Take the peak down, and say where every job is then."""
    at = {load.job: load for load in loads}
    at |= {new.job: new for _, new in lower_peak(ring, loads, level, now)}
    before = measure(ring, WEEK_S)
    further = list(lower_peak(ring, list(at.values()), level, now, is_thorough=True))
    after = measure(ring, WEEK_S)
    if after.score >= before.score and after.peak < before.peak:
        at |= {new.job: new for _, new in further}
    else:
        # A lower peak at the cost of evenness is what the next rebalance would undo.
        for old, new in further:
            ring.remove(new)
            ring.add(old)
    return list(at.values())


def _no_choice(ring: LoadRing) -> Numbers:
    """What no choice of phases changes."""
    return forced(ring, SLOT_S) + bound(ring, SLOT_S)


def _choice(load: Load) -> tuple[bool, bool, int, int]:
    return not load.is_pinned, load.window is None, load.interval_s, -load.cost_s
