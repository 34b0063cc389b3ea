"""Laws of balancing, over every fleet that the benchmark knows by name."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from bench.support.balance import fleets, moves, oracle, ours, rivals
from bench.support.balance.fleets import Fleet
from bench.support.balance.judge import bins, starts, week_of

from evenbeat.core.balance.bulk_placement import place_jobs
from evenbeat.core.balance.model import (
    MINUTE_S,
    WEEK_S,
    JobLoad,
    MoveBudget,
    Placement,
    RebalanceCandidate,
    Score,
    instant_of,
    seconds_of,
)
from evenbeat.core.balance.phase_search import place_job
from evenbeat.core.balance.rebalance import plan_rebalance
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.score import measure_score

# Of each as many as show what it is about, so that all of them take seconds.
COUNT = 100
NAMED = {make.__name__: make for make in fleets.ALL}
every_fleet = pytest.mark.parametrize("name", NAMED)


def one_by_one(ring: LoadRing, loads: list[JobLoad], now: datetime) -> list[Placement]:
    return [place_job(ring, load, now) for load in loads]


def unplaced(fleet: Fleet, start_s: int) -> list[JobLoad]:
    return [fleet.load(int(i), start_s) for i in np.flatnonzero(~fleet.is_pinned)]


@pytest.mark.parametrize("put", [one_by_one, place_jobs])
@every_fleet
def test_no_interval_is_changed_and_no_first_run_is_later_than_it_must_be(
    name: str, put: Callable[[LoadRing, list[JobLoad], datetime], list[Placement]]
):
    fleet = NAMED[name](COUNT)
    now = fleet.now
    ring = ours.ring_of_pinned(fleet, now)
    loads = unplaced(fleet, ring.start_s)
    found = put(ring, loads, now)
    assert ring.rhythms == Counter((load.interval_s, load.window) for load in loads)
    for load, placement in zip(loads, found, strict=True):
        interval, first = timedelta(seconds=load.interval_s), placement.first_at
        assert seconds_of(first) % load.interval_s == placement.phase_s
        window = load.window
        if window is None:
            assert now < first <= now + interval
            continue
        opening = now if window.is_open(now) else window.next_opening(now)
        assert window.is_open(first)
        assert now < first <= (now if opening <= now + interval else opening) + interval


@every_fleet
def test_what_was_placed_all_at_once_is_left_alone_by_a_rebalance(name: str):
    fleet = NAMED[name](COUNT)
    assert moves.moves_of(fleet, ours.batch(fleet), MoveBudget()) == ()


@every_fleet
def test_a_rebalance_never_makes_the_peak_higher_nor_the_week_less_even(name: str):
    fleet = NAMED[name](COUNT)
    start = week_of(fleet)
    before = ours.loads_of(fleet, rivals.now_plus_interval(fleet), start)
    plan = plan_rebalance(
        [RebalanceCandidate(load) for load in before], instant_of(start), guard=moves.FREE
    )
    phases = {move.job: move.new_phase_s for move in plan.moves}
    after = [replace(load, phase_s=phases.get(load.job, load.phase_s)) for load in before]
    was, now = (week(loads, start) for loads in (before, after))
    assert now.peak <= was.peak
    assert now.score >= was.score


def week(loads: list[JobLoad], start: int) -> Score:
    ring = LoadRing(instant_of(start))
    ring.add_all(loads)
    return measure_score(ring, WEEK_S)


def test_rhythms_that_drift_are_even_in_weeks_that_no_placement_has_seen():
    fleet = fleets.primes(1_000)
    placed, worst = ours.online(fleet), oracle.lasting_bound(fleet, MINUTE_S)
    assert worst is not None
    for later in (0, 50):
        minutes = bins(starts(fleet, placed, week_of(fleet) + later * WEEK_S), MINUTE_S)
        assert minutes.max() <= worst + len(fleets.PRIMES), "a run more of each interval at most"
