"""The score: how even the coming day is, and the suggestion to the operator that follows."""

from datetime import timedelta

import numpy as np

from evenbeat.core.balance.ideal_load import count_unavoidable_runs, spread_window_load, water_level
from evenbeat.core.balance.model import (
    DAY_S,
    MINUTE_S,
    SLOT_S,
    Distribution,
    HourLoad,
    RebalancePlan,
    Score,
)
from evenbeat.core.balance.phase_grid import Numbers
from evenbeat.core.balance.ring import LoadRing

WORTH_TELLING = 0.02
"""A smaller gain in the score is not suggested."""

_HOUR = timedelta(hours=1)


def measure_score(ring: LoadRing, horizon_s: int = DAY_S) -> Score:
    """How even the load is from the start of the ring to the horizon."""
    slots, minutes = horizon_s // SLOT_S, horizon_s // MINUTE_S
    slot, minute = ring.slot[:slots].astype(float), ring.minute[:minutes].astype(float)
    fixed = _fixed(ring, SLOT_S)[:slots]
    ideal = max(float(fixed.max()), np.ceil(_level(slot, fixed) - 1e-9), 1.0)
    return Score(
        score=evenness(slot, fixed, _together(ring, SLOT_S, horizon_s)),
        minute_score=evenness(
            minute, _fixed(ring, MINUTE_S)[:minutes], _together(ring, MINUTE_S, horizon_s)
        ),
        peak=int(slot.max()),
        peak_over_ideal=float(slot.max() / ideal),
    )


def evenness(load: Numbers, fixed: Numbers, together: Numbers) -> float:
    """1 when no run would have to change its bin, 0 when as many would as if all began together."""
    worst = count_misplaced_runs(together, fixed)
    if worst <= 0:
        return 1.0
    return max(0.0, 1.0 - count_misplaced_runs(load, fixed) / worst)


def count_misplaced_runs(load: Numbers, fixed: Numbers) -> float:
    """How many runs would have to change their bin to make the load even over what is fixed."""
    level = _level(load, fixed)
    above = load - np.maximum(fixed, np.ceil(level - 1e-9))
    below = np.maximum(fixed, np.floor(level + 1e-9)) - load
    return float(max(above.clip(0).sum(), below.clip(0).sum()))


def measure_distribution(ring: LoadRing) -> Distribution:
    """The next 24 hours, from the start of the ring on."""
    runs = ring.slot[: DAY_S // SLOT_S].reshape(24, -1).sum(1)
    hours = tuple(
        HourLoad(i, ring.start_at + i * _HOUR, int(ring.jobs[i]), int(runs[i])) for i in range(24)
    )
    # The earliest of equals.
    peak = int(np.argmax(runs))
    return Distribution(hours, peak, int(ring.jobs[peak]), ring.job_count, measure_score(ring))


def suggest_rebalance(plan: RebalancePlan, job_count: int) -> str | None:
    """A sentence for the operator, if there is anything to gain."""
    before, after = plan.before, plan.after
    if not plan.moves or after.score - before.score < WORTH_TELLING:
        return None
    moving = f"Moving {len(plan.moves):,} of {job_count:,} jobs"
    scores = f"{before.score:.2f} to {after.score:.2f}"
    if after.peak >= before.peak:
        return f"{moving} raises the score from {scores}"
    return f"{moving} cuts the peak from {before.peak:,} to {after.peak:,} (score {scores})"


def _level(load: Numbers, fixed: Numbers) -> float:
    return water_level(fixed, float(load.sum() - fixed.sum()))


def _fixed(ring: LoadRing, bin_s: int) -> Numbers:
    pinned = ring.pinned if bin_s == SLOT_S else ring.pinned_minute
    return pinned + count_unavoidable_runs(ring, bin_s) + spread_window_load(ring, bin_s)


def _together(ring: LoadRing, bin_s: int, horizon_s: int) -> Numbers:
    """The same jobs, released together: every interval at phase 0."""
    pinned = ring.pinned if bin_s == SLOT_S else ring.pinned_minute
    load = pinned[: horizon_s // bin_s].astype(float)
    for (interval, window), count in ring.rhythms.items():
        starts = np.arange(-ring.start_s % interval, horizon_s, interval, dtype=np.int64)
        if window is not None:
            starts = ring.inside(starts, window)
        np.add.at(load, starts[starts < horizon_s] // bin_s, count)
    return load
