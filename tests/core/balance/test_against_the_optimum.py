"""Small fleets beside the exact optimum, which an integer program finds."""

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest
from bench.support.balance import fleets, moves, oracle, ours, rivals
from bench.support.balance.fleets import Fleet
from bench.support.balance.judge import GRAINS, bins, judge, starts, week_of

from evenbeat.core.balance.model import MoveBudget, MoveGuard, RebalanceCandidate, instant_of
from evenbeat.core.balance.rebalance import plan_rebalance

FLEETS: dict[str, Callable[[], Fleet]] = {
    "small": fleets.small,
    "crawls": lambda: fleets.crawl_burst(300),
    "grown": lambda: fleets.growth(300),
    "half pinned": lambda: fleets.cron_mix(300),
    "long and short": lambda: fleets.heavy_tail(300),
    "odd": lambda: fleets.odd_intervals(200),
    "windowed": lambda: fleets.off_peak(300),
    "backups": lambda: fleets.backups(200),
    "office": fleets.office,
}


@pytest.mark.parametrize("name", FLEETS)
def test_a_small_fleet_is_as_even_as_it_can_be_but_for_a_run(name: str):
    fleet = FLEETS[name]()
    best = oracle.optimum(fleet)
    assert best is not None
    for place, spare in ((ours.online, 0.01), (ours.batch, 0.005)):
        placed = place(fleet)
        peak = bins(starts(fleet, placed, week_of(fleet)), 900).max()
        assert best <= peak <= np.ceil(best * (1 + spare))
        figures = judge(fleet, placed, dict.fromkeys(GRAINS, 1.0))
        assert figures["late %"] == figures["wrong interval %"] == figures["outside %"] == 0


@pytest.mark.parametrize("name", ["small", "grown", "half pinned"])
def test_a_rebalance_moves_hardly_more_than_the_fewest_that_could_do_it(name: str):
    fleet = FLEETS[name]()
    placed = rivals.now_plus_interval(fleet)
    start = week_of(fleet)
    plan = plan_rebalance(
        [RebalanceCandidate(load) for load in ours.loads_of(fleet, placed, start)],
        instant_of(start),
        budget=MoveBudget(tolerance=0.05, minute_tolerance=None),
        guard=MoveGuard(timedelta(0), timedelta(0)),
    )
    fewest = oracle.fewest_moves(fleet, placed, moves.level_of(fleet, placed, plan.moves, 0.05))
    assert fewest is not None
    assert 0 < fewest <= len(plan.moves) <= np.ceil(1.1 * fewest)
