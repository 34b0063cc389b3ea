"""How many jobs a rebalance moves, beside the fewest that could do it."""

from datetime import timedelta

import numpy as np
from bench.support.balance import fleets, oracle, ours, rivals
from bench.support.balance.judge import SLOT, Placed, bins, curve, starts, water_level, week_of

from evenbeat.core.balance.model import Move, MoveBudget, MoveGuard, RebalanceCandidate, instant_of
from evenbeat.core.balance.rebalance import plan_rebalance

FREE = MoveGuard(protection=timedelta(0), cooldown=timedelta(0))
FLEETS = (fleets.growth, fleets.cron_mix, fleets.small)
TOLERANCES = (0.25, 0.05, 0.03, 0.01)


def measure() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    print(f"\n{'from now + interval':24}{'tolerance':>10}{'moves':>8}{'fewest':>8}{'ratio':>8}")
    for make in FLEETS:
        fleet = make()
        placed = rivals.now_plus_interval(fleet)
        for tolerance in TOLERANCES:
            budget = MoveBudget(tolerance=tolerance, minute_tolerance=None)
            moves = moves_of(fleet, placed, budget)
            fewest = oracle.fewest_moves(fleet, placed, level_of(fleet, placed, moves, tolerance))
            name = f"{fleet.name}, tolerance {tolerance}"
            found[name] = {"moves": len(moves), "fewest": fewest or 0}
            ratio = len(moves) / fewest if fewest else float(not moves)
            print(f"{fleet.name:24}{tolerance:>10}{len(moves):>8}{fewest or 0:>8}{ratio:>8.3f}")
    print(f"\n{'from an even plan':24}{'moves':>8}")
    for make in fleets.ALL:
        fleet = make()
        moves = moves_of(fleet, ours.batch(fleet), MoveBudget())
        found[f"{fleet.name}, even"] = {"moves": len(moves)}
        print(f"{fleet.name:24}{len(moves):>8}", flush=True)
    return found


def moves_of(fleet: fleets.Fleet, placed: Placed, budget: MoveBudget) -> tuple[Move, ...]:
    # In the week that the judge sees, so that both speak of the same slots.
    start = week_of(fleet)
    candidates = [RebalanceCandidate(load) for load in ours.loads_of(fleet, placed, start)]
    return plan_rebalance(candidates, instant_of(start), budget=budget, guard=FREE).moves


def level_of(
    fleet: fleets.Fleet, placed: Placed, moves: tuple[Move, ...], tolerance: float
) -> np.ndarray:
    """The even level over pinned and forced runs; where it was not reached, what was."""
    start, pin = week_of(fleet), fleet.is_pinned
    fixed = bins(curve(fleet.pinned[pin], fleet.interval[pin], start), SLOT).astype(float)
    short = fleet.interval[~pin & (fleet.interval <= SLOT)]
    fixed += int((SLOT // short).sum())
    first = placed.first.copy()
    for move in moves:
        first[move.job] = move.new_phase_s
    after = bins(starts(fleet, Placed(first, placed.interval), start), SLOT)
    water = water_level(fixed, after.sum() - fixed.sum())
    even = max(np.ceil(water - 1e-9), np.floor(water * (1 + tolerance)))
    return np.maximum(np.maximum(fixed, even), after)
