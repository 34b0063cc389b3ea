"""Placement: the phase of a job against everything its beats will meet in the coming week.

Folding the ring by the interval gives the load that every phase would meet, at once, so that a
placement takes as long among a million jobs as among ten. First the block of phases that meets the
emptiest slots is chosen, then the emptiest minute of the block, then the emptiest second. Every
phase comes once in (now, now + interval], so a first beat that near costs nothing.
"""

from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.balance.grid import Numbers, blocks_of, emptiest, minutes_of, spread_order
from evenbeat.core.balance.mask import open_minutes
from evenbeat.core.balance.model import (
    MINUTE_S,
    SLOT_S,
    WEEK_MINUTES,
    WEEK_S,
    Load,
    Placement,
    instant_of,
    seconds_of,
)
from evenbeat.core.balance.opening import Opening
from evenbeat.core.balance.ring import Counts, LoadRing
from evenbeat.core.schedules.clockwork.window import Window

# What a start meets counts relative to the average of the week: other starts of its slots once,
# and beside these work going on, the peak of the week, other starts of its minutes. Chosen by
# `./dev bench balance`.
BUSY = 0.5
PEAK = 4.0
MINUTE = 0.1
# How many blocks, the cheapest by their slots, are looked at minute by minute.
SHORTLIST = 4
# How much fuller than other times a preferred one may be before these are as good.
PREFERENCE = 0.5


def place(ring: LoadRing, load: Load, now: datetime) -> Placement:
    """Choose the phase of a job and add it to the ring."""
    placement = find(ring, load, now)
    ring.add(replace(load, phase_s=placement.phase_s))
    return placement


def find(ring: LoadRing, load: Load, now: datetime) -> Placement:
    """Where a job would go."""
    if load.is_pinned:
        return _find_slack(ring, load, now)
    opening = Opening.of(load, ring.start_s, now)
    week = _far_week(ring, load)
    if week:
        offset = week * WEEK_S + _spread(int(ring.far[week]))
    else:
        offset = _find_offset(ring, load, opening)
    return _placement(ring, replace(load, phase_s=ring.start_s + offset), now, opening)


def placement_of(ring: LoadRing, load: Load, now: datetime) -> Placement:
    """The placement of a job that has a phase, and its first beat."""
    return _placement(ring, load, now, Opening.of(load, ring.start_s, now))


def _placement(ring: LoadRing, load: Load, now: datetime, opening: Opening | None) -> Placement:
    first = (opening.since_s if opening else seconds_of(now) - ring.start_s) + 1
    first += (ring.offset_of(load) - first) % load.interval_s
    return Placement(load.job, load.phase_s or 0, instant_of(ring.start_s + first))


def _find_offset(ring: LoadRing, load: Load, opening: Opening | None) -> int:
    """The phase, counted from the start of the ring."""
    interval = load.interval_s
    if interval <= MINUTE_S:
        return emptiest_second(ring, load, (0, interval), opening)
    grid = minutes_of(interval) if opening else blocks_of(interval)
    felt = _felt(ring, load)
    cost = grid.mean(_slot_pressure(ring, load, felt)) + PEAK * grid.highest(_near_peak(felt))
    if opening:
        fits = opening.fits(grid.starts)
        if not fits.any():
            # Open only for a moment at the very end of the interval.
            return opening.first_s % interval
        cost = np.where(fits, cost, np.inf)
    order = spread_order(len(cost))
    # Under a window, the blocks are single minutes.
    count = SHORTLIST * SLOT_S // MINUTE_S if opening else SHORTLIST
    cheapest = order[np.argsort(np.round(cost[order], 9), kind="stable")[:count]]
    return offset_in(ring, load, cheapest, opening, cost)


def offset_in(
    ring: LoadRing,
    load: Load,
    blocks: NDArray[np.intp],
    opening: Opening | None,
    cost: Numbers | None = None,
) -> int:
    """The emptiest minute of these blocks, each at its cost, and its emptiest second."""
    grid = minutes_of(load.interval_s) if opening else blocks_of(load.interval_s)
    pieces, owners = grid.pieces(blocks)
    beats = np.arange(0, WEEK_S, load.interval_s)[:, None] + pieces[:, 0]
    met = MINUTE * _minute_pressure(ring, load, beats).mean(0)
    if cost is not None:
        met += cost[owners]
    if opening:
        met = np.where(opening.fits(pieces[:, 0]), met, np.inf)
    begin, end = pieces[emptiest(met)].tolist()
    return emptiest_second(ring, load, (begin, end), opening)


def emptiest_second(
    ring: LoadRing, load: Load, between: tuple[int, int], opening: Opening | None
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
    return begin + emptiest(met)


# --- what is met --------------------------------------------------------------------------------


def _relative(load: Counts | Numbers) -> Numbers:
    """The load as a multiple of its average."""
    return load / max(1e-9, float(load.mean()))


def _felt(ring: LoadRing, load: Load) -> Numbers:
    """The slots as a job sees them: times that it prefers seem emptier than they are."""
    slots = ring.slot.astype(np.float64)
    if load.prefers is None:
        return slots
    return slots / (1 + PREFERENCE * _preferred(ring, load.prefers))


def _near_peak(felt: Numbers) -> Numbers:
    """1 for the fullest slot of the week, and next to nothing for those well below it.

    To be fuller than the average is no harm in itself; to make the peak higher is.
    """
    return (felt / max(1.0, float(felt.max()))) ** 8


def _slot_pressure(ring: LoadRing, load: Load, felt: Numbers) -> Numbers:
    """What a start in each slot would meet: other starts, and work going on while it runs."""
    busy = _busy(ring, load).reshape(-1, SLOT_S // MINUTE_S).mean(1)
    pressure = _relative(felt) + BUSY * busy
    if load.prefers is not None:
        # In an empty week too, the preferred times come first.
        pressure -= MINUTE * _preferred(ring, load.prefers)
    return pressure


def _preferred(ring: LoadRing, window: Window) -> Numbers:
    """How much of each slot is within the window, from 0 to 1."""
    return open_minutes(window, ring.start_s).reshape(-1, SLOT_S // MINUTE_S).mean(1)


def _minute_pressure(ring: LoadRing, load: Load, starts: Counts) -> Numbers:
    """What these starts would meet, minute by minute."""
    minutes = starts // MINUTE_S % WEEK_MINUTES
    others = ring.minute[minutes] / max(1e-9, float(ring.minute.mean()))
    if _minutes(load) == 1:
        # The usual case, without looking at the rest of the week.
        return others + ring.busy[minutes] * (BUSY / max(1e-9, float(ring.busy.mean())))
    return others + BUSY * _busy(ring, load)[minutes]


def _minutes(load: Load) -> int:
    return max(1, round(load.cost_s / MINUTE_S))


def _busy(ring: LoadRing, load: Load) -> Numbers:
    """The work going on, on average over as long as a run of the job takes from each minute on."""
    minutes, busy = _minutes(load), _relative(ring.busy)
    if minutes == 1:
        return busy
    summed = np.concatenate([[0.0], np.cumsum(np.concatenate([busy, busy[:minutes]]))])
    return (summed[minutes : minutes + WEEK_MINUTES] - summed[:WEEK_MINUTES]) / minutes


# --- more than a week, and pinned with slack ----------------------------------------------------


def _far_week(ring: LoadRing, load: Load) -> int:
    """Which of the weeks to come a job of more than a week begins in: the one with fewest such."""
    weeks = load.interval_s // WEEK_S
    if weeks < 2 or load.window is not None or load.prefers is not None:
        return 0
    return int(np.argmin(ring.far[:weeks]))


def _spread(number: int) -> int:
    # The ring does not reach so far: these are spread among themselves.
    bits = 20
    return int(spread_order(1 << bits)[number % (1 << bits)]) * WEEK_S >> bits


def _find_slack(ring: LoadRing, load: Load, now: datetime) -> Placement:
    """How far within its slack a pinned job is put off."""
    beats = np.array(load.pinned_at, np.int64) - ring.start_s
    beats = beats[(beats >= 0) & (beats + load.within_s < WEEK_S)]
    offset = 0
    if len(beats):
        span = load.within_s + 1
        count = max(1, span // MINUTE_S)
        edges = np.arange(count + 1) * span // count
        met = beats[:, None] + edges[:-1]
        felt = _felt(ring, load)
        cost: Numbers = _slot_pressure(ring, load, felt)[met // SLOT_S].mean(0)
        cost += PEAK * _near_peak(felt)[met // SLOT_S].max(0)
        cost += MINUTE * _minute_pressure(ring, load, met).mean(0)
        # Of equals, the least delay.
        best = int(np.argmin(np.round(cost, 9)))
        begin, end = int(edges[best]), int(edges[best + 1])
        seconds = np.arange(begin, end)
        offset = begin + emptiest(ring.second[beats[:, None] + seconds].mean(0))
    now_s = seconds_of(now)
    later = [at + offset for at in load.pinned_at if at + offset > now_s]
    return Placement(load.job, offset, instant_of(min(later, default=now_s)))
