"""How long placements and rebalances take, by the number of jobs."""

import statistics
import time
from datetime import timedelta

import numpy as np
from bench.support.balance import fleets, ours, rivals

from evenbeat.core.balance.model import MoveBudget, MoveGuard, RebalanceCandidate, instant_of
from evenbeat.core.balance.phase_search import place_job
from evenbeat.core.balance.rebalance import plan_rebalance
from evenbeat.core.balance.ring import IntervalArrays, LoadRing

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SAMPLE = 400


def measure() -> dict[str, dict[str, float]]:
    """Placing one more job among so many, and making the ring of them."""
    found: dict[str, dict[str, float]] = {}
    print(f"\n{'jobs':>12}{'ring, ms':>12}{'placement, ms':>16}{'p99':>8}")
    for size in SIZES:
        fleet = fleets.scaled(size)
        placed = rivals.hashed(fleet) if size <= 100_000 else rivals.random_phase(fleet)
        now = fleet.now
        ring = LoadRing(now)
        rows = IntervalArrays(
            fleet.interval, placed.first % fleet.interval, fleet.cost, np.ones(size, np.int64)
        )
        began = time.process_time()
        ring.add_intervals(rows)
        made = time.process_time() - began
        took: list[float] = []
        for i in range(SAMPLE):
            load = fleet.load(i, ring.start_s)
            began = time.process_time()
            place_job(ring, load, now)
            took.append((time.process_time() - began) * 1000)
        took.sort()
        figures = {
            "ring ms": made * 1000,
            "median ms": statistics.median(took),
            "p99 ms": took[int(SAMPLE * 0.99)],
        }
        found[f"placement among {size}"] = figures
        ring_ms, median, p99 = figures.values()
        print(f"{size:>12,}{ring_ms:>12.0f}{median:>16.2f}{p99:>8.2f}", flush=True)
    return found


def measure_rebalance() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    print(f"\n{'jobs':>12}{'moves':>10}{'rebalance, s':>14}")
    for size in (10_000, 100_000):
        fleet = fleets.growth(size)
        placed = rivals.now_plus_interval(fleet)
        start = int(fleet.created.max()) // 900 * 900
        candidates = [RebalanceCandidate(load) for load in ours.loads_of(fleet, placed, start)]
        guard = MoveGuard(timedelta(0), timedelta(0))
        budget = MoveBudget(tolerance=0.01, minute_tolerance=None)
        began = time.process_time()
        plan = plan_rebalance(candidates, instant_of(start), budget=budget, guard=guard)
        took = time.process_time() - began
        found[f"rebalance of {size}"] = {"moves": len(plan.moves), "seconds": took}
        print(f"{size:>12,}{len(plan.moves):>10,}{took:>14.1f}", flush=True)
    return found
