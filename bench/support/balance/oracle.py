"""The exact optimum at slot level: a mixed-integer program over how many jobs go where.

Jobs of one interval and window are interchangeable, so the unknowns are how many of them have each
pattern of slots. Phases are whole minutes, which is exact for intervals of whole minutes; fleets
with others have no oracle, and are measured against a lower bound.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from math import gcd

import numpy as np
from bench.support.balance.fleets import WEEK, WINDOWS, Fleet
from bench.support.balance.judge import SLOT, Placed, bins, curve, lower_bound, week_of
from scipy import optimize, sparse

from evenbeat.core.balance.window_mask import open_minutes, opening_seconds

SLOTS = WEEK // SLOT
Key = tuple[int, str | None]


@dataclass(frozen=True)
class Program:
    """Patterns as columns, the classes they belong to, and the load that is given."""

    pinned: np.ndarray
    patterns: sparse.csr_array
    owner: np.ndarray
    need: np.ndarray
    column: dict[tuple[Key, bytes], int]

    @property
    def columns(self) -> int:
        return len(self.owner)


def has_oracle(fleet: Fleet) -> bool:
    return not (fleet.interval[~fleet.is_pinned] % 60).any()


def slots_met(key: Key, offset: int, start: int) -> np.ndarray:
    """How often each slot of the week is met by a phase."""
    interval, name = key
    beats = np.arange(offset, WEEK, interval)
    if name is not None:
        window = WINDOWS[name]
        is_open = open_minutes(window, start)[beats // 60]
        waiting = opening_seconds(window, start)
        later = np.searchsorted(waiting, beats[~is_open])
        moved = np.unique(waiting[later[later < len(waiting)]])
        beats = beats[is_open] if window.outside == "skip" else np.union1d(beats[is_open], moved)
    return np.bincount(beats // SLOT, minlength=SLOTS)


def program(fleet: Fleet) -> Program:
    start, pin = week_of(fleet), fleet.is_pinned
    pinned = bins(curve(fleet.pinned[pin], fleet.interval[pin], start), SLOT)
    free = np.flatnonzero(~pin)
    classes: Counter[Key] = Counter((int(fleet.interval[i]), fleet.window[i]) for i in free)
    met: list[np.ndarray] = []
    owner: list[int] = []
    column: dict[tuple[Key, bytes], int] = {}
    for number, key in enumerate(classes):
        offsets = range(0, min(key[0], WEEK), 60)
        found = {p: slots_met(key, p, start) for p in offsets if _is_allowed(key, p, start)}
        for pattern in found.values():
            if (key, pattern.tobytes()) not in column:
                column[key, pattern.tobytes()] = len(met)
                met.append(pattern)
                owner.append(number)
    matrix = sparse.csr_array(np.array(met, float).T)
    return Program(pinned, matrix, np.array(owner), np.array(list(classes.values())), column)


def _is_allowed(key: Key, offset: int, start: int) -> bool:
    """Jobs of a day or more must begin inside their window; shorter ones cannot help it."""
    interval, name = key
    if name is None or interval < 86_400:
        return True
    beats = np.arange(offset, WEEK, interval)
    return bool(open_minutes(WINDOWS[name], start)[beats // 60].all())


def _members(model: Program) -> sparse.csr_array:
    count = model.columns
    cells = (np.ones(count), (model.owner, np.arange(count)))
    return sparse.csr_array(cells, shape=(len(model.need), count))


def optimum(fleet: Fleet, seconds: float = 60) -> float | None:
    """The lowest peak of a slot that any placement can have."""
    if not has_oracle(fleet):
        return None
    model = program(fleet)
    count = model.columns
    under = sparse.hstack([model.patterns, -np.ones((SLOTS, 1))])
    all_placed = sparse.hstack([_members(model), np.zeros((len(model.need), 1))])
    solved = optimize.milp(
        np.append(np.zeros(count), 1.0),
        constraints=[
            optimize.LinearConstraint(under, -np.inf, -model.pinned),
            optimize.LinearConstraint(all_placed, model.need, model.need),
        ],
        integrality=np.ones(count + 1),
        bounds=optimize.Bounds(0, np.inf),
        options={"time_limit": seconds},
    )
    # What is proven, if the time ran out before the best was found.
    return None if solved.mip_dual_bound is None else float(np.ceil(solved.mip_dual_bound - 1e-6))


def fewest_moves(
    fleet: Fleet, placed: Placed, level: np.ndarray, seconds: float = 60
) -> int | None:
    """The fewest jobs that have to move until no slot of the week is above the level."""
    model, start = program(fleet), week_of(fleet)
    count = model.columns
    have = np.zeros(count)
    for i in np.flatnonzero(~fleet.is_pinned):
        key = int(fleet.interval[i]), fleet.window[i]
        offset = (int(placed.first[i]) - start) % key[0] // 60 * 60
        found = model.column.get((key, slots_met(key, offset, start).tobytes()))
        if found is not None:
            have[found] += 1
    nothing = sparse.csr_array((SLOTS, count))
    same = sparse.identity(count)
    none = sparse.csr_array((len(model.need), count))
    solved = optimize.milp(
        np.append(np.zeros(count), -np.ones(count)),
        constraints=[
            optimize.LinearConstraint(
                sparse.hstack([model.patterns, nothing]), -np.inf, level - model.pinned
            ),
            optimize.LinearConstraint(
                sparse.hstack([_members(model), none]), model.need, model.need
            ),
            # Of those that a pattern has, no more stay than it keeps.
            optimize.LinearConstraint(sparse.hstack([-same, same]), -np.inf, 0),
        ],
        integrality=np.ones(2 * count),
        bounds=optimize.Bounds(0, np.append(np.full(count, np.inf), have)),
        options={"time_limit": seconds, "mip_rel_gap": 1e-3},
    )
    return None if solved.x is None else round(model.need.sum() + solved.mip_dual_bound - 1e-6)


def best_of(fleet: Fleet, total: int) -> dict[str, float]:
    """The optimum per slot where it can be known, lower bounds per minute and second.

    A slot's runs have only so many minutes to be in, and a minute's only so many seconds: windows,
    which the bounds know nothing of, come in by the exact optimum.
    """
    start = week_of(fleet)
    slot = max(lower_bound(fleet, start, SLOT, total), optimum(fleet) or 0.0)
    minute = max(lower_bound(fleet, start, 60, total), float(np.ceil(slot / 15)))
    second = max(lower_bound(fleet, start, 1, total), float(np.ceil(minute / 60)))
    return {"slot": slot, "minute": minute, "second": second}


def lasting_bound(fleet: Fleet, size: int) -> int | None:
    """The peak that comes sooner or later, wherever the phases lie; None where that is not known.

    Rhythms whose intervals have no common divisor meet in every combination in the course of time:
    one day the fullest moments of all of them are the same moment.
    """
    if fleet.is_pinned.any() or fleet.is_windowed.any():
        return None
    kinds = Counter(fleet.interval.tolist())
    if any(gcd(*pair) > 1 for pair in combinations([size, *kinds], 2)):
        return None
    return sum(-(-size * count // interval) for interval, count in kinds.items())
