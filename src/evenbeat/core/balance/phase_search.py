"""Placement: the phase of a job against everything its beats will meet in the coming week.

Folding the ring by the interval gives the load that every phase would meet, at once, so that a
placement takes as long among a million jobs as among ten. First the block of phases that meets the
emptiest slots is chosen, then the emptiest minute of the block, then the emptiest second. Every
phase comes once in (now, now + interval], so a first beat that near costs nothing.
"""

from dataclasses import replace
from datetime import datetime
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.balance.congestion import minute_congestion, slot_congestion
from evenbeat.core.balance.model import (
    MINUTE_S,
    SLOT_S,
    WEEK_MINUTES,
    WEEK_S,
    JobLoad,
    Placement,
    instant_of,
    seconds_of,
)
from evenbeat.core.balance.phase_grid import (
    Numbers,
    PhaseGrid,
    build_block_grid,
    build_minute_grid,
    find_emptiest,
    is_drifting,
    spread_order,
)
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.window_fit import WindowFit
from evenbeat.core.balance.window_mask import find_landing_bins
from evenbeat.core.time.schedules.base.window import Window

# What the minutes count beside the slots. Chosen by `./dev bench balance`.
MINUTE_WEIGHT = 0.1
# How many blocks, the cheapest by their slots, are searched minute by minute.
SHORTLIST = 4


def place_job(ring: LoadRing, load: JobLoad, now: datetime) -> Placement:
    """Choose the phase of a job and add it to the ring."""
    placement = find_placement(ring, load, now)
    ring.add(replace(load, phase_s=placement.phase_s))
    return placement


def find_placement(ring: LoadRing, load: JobLoad, now: datetime) -> Placement:
    """Where a job would go."""
    if load.is_pinned:
        return _find_slack(ring, load, now)
    opening = WindowFit.for_load(load, ring.start_s, now)
    week = _far_week(ring, load)
    if week:
        offset = week * WEEK_S + _spread(int(ring.far[week]))
    else:
        offset = _find_offset(ring, load, opening)
    return _placement(ring, replace(load, phase_s=ring.start_s + offset), now, opening)


def placement_at_phase(ring: LoadRing, load: JobLoad, now: datetime) -> Placement:
    """The placement of a job that has a phase, and its first beat."""
    return _placement(ring, load, now, WindowFit.for_load(load, ring.start_s, now))


def _placement(
    ring: LoadRing, load: JobLoad, now: datetime, opening: WindowFit | None
) -> Placement:
    first = (opening.since_s if opening else seconds_of(now) - ring.start_s) + 1
    first += (ring.offset_of(load) - first) % load.interval_s
    return Placement(load.job, load.phase_s or 0, instant_of(ring.start_s + first))


def _find_offset(ring: LoadRing, load: JobLoad, opening: WindowFit | None) -> int:
    """The phase, counted from the start of the ring."""
    interval = load.interval_s
    if interval <= MINUTE_S:
        return find_emptiest_second(ring, load, (0, interval), opening)
    grid = _grid_of(ring, load, opening)
    cost = slot_congestion(ring, load, grid.places)
    if opening:
        fits = opening.fits(grid.starts)
        if not fits.any():
            # Open only for a moment at the very end of the interval.
            return opening.first_s % interval
        cost = np.where(fits, cost, np.inf)
    elif interval in ring.drifting and load.prefers is None:
        cost = np.where(ring.least_drifting(interval), cost, np.inf)
    order = spread_order(len(cost))
    # Blocks that are single minutes are many.
    count = SHORTLIST if grid.is_wide else SHORTLIST * SLOT_S // MINUTE_S
    cheapest = order[np.argsort(np.round(cost[order], 9), kind="stable")[:count]]
    return find_offset_in_blocks(ring, load, grid, cheapest, opening, cost)


def _grid_of(ring: LoadRing, load: JobLoad, opening: WindowFit | None) -> PhaseGrid:
    if opening and load.window is not None:
        return _landing_grid(load.interval_s, load.window, ring.start_s)
    return (
        build_minute_grid(load.interval_s)
        if is_drifting(load.interval_s)
        else build_block_grid(load.interval_s)
    )


@lru_cache(maxsize=64)
def _landing_grid(interval_s: int, window: Window, start_s: int) -> PhaseGrid:
    return build_minute_grid(interval_s).with_landing_bins(
        find_landing_bins(window, interval_s, start_s, SLOT_S)
    )


def find_offset_in_blocks(
    ring: LoadRing,
    load: JobLoad,
    grid: PhaseGrid,
    blocks: NDArray[np.intp],
    opening: WindowFit | None,
    cost: Numbers | None = None,
) -> int:
    """The emptiest minute of these blocks, each at its cost, and its emptiest second."""
    pieces, owners = grid.pieces(blocks)
    beats = np.arange(0, WEEK_S, load.interval_s)[:, None] + pieces[:, 0]
    minutes = np.minimum(beats // MINUTE_S, WEEK_MINUTES)
    if opening and load.window is not None:
        lands = find_landing_bins(load.window, load.interval_s, ring.start_s, MINUTE_S)
        minutes = np.append(lands, WEEK_MINUTES)[minutes]
    met = MINUTE_WEIGHT * minute_congestion(ring, load, minutes)
    if cost is not None:
        met += cost[owners]
    if opening:
        met = np.where(opening.fits(pieces[:, 0]), met, np.inf)
    begin, end = pieces[find_emptiest(met)].tolist()
    return find_emptiest_second(ring, load, (begin, end), opening)


def find_emptiest_second(
    ring: LoadRing, load: JobLoad, between: tuple[int, int], opening: WindowFit | None
) -> int:
    interval_s, (begin, end) = load.interval_s, between
    if interval_s > WEEK_S:
        met = ring.second[begin:end].astype(np.float64)
    else:
        times = WEEK_S // interval_s
        week = ring.second[: times * interval_s].reshape(times, interval_s)
        met = week[:, begin:end].sum(0).astype(np.float64)
    if opening:
        met = np.where(opening.is_open(np.arange(begin, end)), met, np.inf)
    return begin + find_emptiest(met)


# --- more than a week, and pinned with slack ----------------------------------------------------


def _far_week(ring: LoadRing, load: JobLoad) -> int:
    """Which of the weeks to come a job of more than a week begins in: the one with fewest such."""
    weeks = load.interval_s // WEEK_S
    if weeks < 2 or load.window is not None or load.prefers is not None:
        return 0
    return int(np.argmin(ring.far[:weeks]))


def _spread(number: int) -> int:
    # The ring does not reach so far: these are spread among themselves.
    bits = 20
    return int(spread_order(1 << bits)[number % (1 << bits)]) * WEEK_S >> bits


def _find_slack(ring: LoadRing, load: JobLoad, now: datetime) -> Placement:
    """How far within its slack a pinned job is put off."""
    beats = np.array(load.pinned_at, np.int64) - ring.start_s
    beats = beats[(beats >= 0) & (beats + load.within_s < WEEK_S)]
    offset = 0
    if len(beats):
        span = load.within_s + 1
        count = max(1, span // MINUTE_S)
        edges = np.arange(count + 1) * span // count
        met = beats[:, None] + edges[:-1]
        cost = slot_congestion(ring, load, met // SLOT_S)
        cost += MINUTE_WEIGHT * minute_congestion(ring, load, met // MINUTE_S)
        # Of equals, the least delay.
        best = int(np.argmin(np.round(cost, 9)))
        begin, end = int(edges[best]), int(edges[best + 1])
        seconds = np.arange(begin, end)
        offset = begin + find_emptiest(ring.second[beats[:, None] + seconds].mean(0))
    now_s = seconds_of(now)
    later = [at + offset for at in load.pinned_at if at + offset > now_s]
    return Placement(load.job, offset, instant_of(min(later, default=now_s)))
