"""Laws of balancing, over jobs of any interval, window and number."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.core.balance.bulk_placement import place_jobs
from evenbeat.core.balance.model import (
    DAY_S,
    WEEK_S,
    JobLoad,
    MoveBudget,
    MoveGuard,
    RebalanceCandidate,
    RebalancePlan,
    instant_of,
    seconds_of,
)
from evenbeat.core.balance.phase_search import place_job
from evenbeat.core.balance.rebalance import plan_rebalance
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.score import count_misplaced_runs, evenness, measure_score
from evenbeat.core.time.schedules.base.window import Window

START = datetime(2026, 1, 1, tzinfo=UTC)
NOWS = st.timedeltas(timedelta(0), timedelta(days=3650)).map(lambda passed: START + passed)
INTERVALS = st.one_of(
    st.sampled_from([60, 300, 420, 900, 1500, 1800, 3600, 6000, 21600, DAY_S, WEEK_S]),
    st.integers(20, 2 * DAY_S),
    st.integers(WEEK_S, 40 * DAY_S),
)
WINDOWS = st.sampled_from(
    [
        Window.parse(text)
        for text in (
            "22:00-06:00 Europe/Berlin",
            "01:00-05:00",
            "mon-fri 09:00-17:00 America/New_York outside=skip",
            "sun 02:30-02:31 Europe/Berlin outside=skip",
        )
    ]
)
COSTS = st.integers(1, 3 * 3600)
few = settings(max_examples=25)


@st.composite
def loads(draw: st.DrawFn, *, are_placed: bool, most: int = 25) -> list[JobLoad]:
    kinds = draw(
        st.lists(st.tuples(INTERVALS, st.none() | WINDOWS, COSTS), min_size=1, max_size=most)
    )
    made = [
        JobLoad(job, t, cost_s=cost, window=window) for job, (t, window, cost) in enumerate(kinds)
    ]
    if not are_placed:
        return made
    return [replace(load, phase_s=draw(st.integers(0, load.interval_s - 1))) for load in made]


def ring_of(now: datetime, jobs: list[JobLoad]) -> LoadRing:
    ring = LoadRing(now)
    for job in jobs:
        ring.add(job)
    return ring


def arrays(ring: LoadRing) -> list[bytes]:
    parts = (ring.second, ring.minute, ring.slot, ring.busy, ring.jobs, ring.pinned, ring.far)
    return [part.tobytes() for part in parts]


@few
@given(NOWS, loads(are_placed=True), loads(are_placed=True))
def test_what_is_taken_out_leaves_the_ring_as_if_it_had_never_been_there(
    now: datetime, kept: list[JobLoad], gone: list[JobLoad]
):
    ring, never = ring_of(now, [*kept, *gone]), ring_of(now, kept)
    for load in gone:
        ring.remove(load)
    assert arrays(ring) == arrays(never)
    assert (ring.rhythms, ring.drifting) == (never.rhythms, never.drifting)
    assert ring.windowed == never.windowed
    assert ring.job_count == never.job_count


@few
@given(NOWS, loads(are_placed=True))
def test_a_ring_made_at_once_is_the_ring_made_one_by_one(now: datetime, jobs: list[JobLoad]):
    at_once = LoadRing(now)
    at_once.add_all(jobs)
    one_by_one = ring_of(now, jobs)
    assert arrays(at_once) == arrays(one_by_one)
    assert (at_once.rhythms, at_once.drifting) == (one_by_one.rhythms, one_by_one.drifting)


def first_inside(load: JobLoad, now: datetime) -> datetime:
    """The latest that a first beat may come: an interval from now, or from the opening."""
    latest = now + timedelta(seconds=load.interval_s)
    if load.window is None or load.window.is_open(now):
        return latest
    opening = load.window.next_opening(now)
    return latest if opening <= latest else opening + timedelta(seconds=load.interval_s)


@few
@given(NOWS, loads(are_placed=False), st.booleans())
def test_no_first_beat_is_later_than_an_interval_unless_a_window_forbids(
    now: datetime, jobs: list[JobLoad], is_bulk: bool
):
    ring = LoadRing(now)
    found = (
        place_jobs(ring, jobs, now) if is_bulk else [place_job(ring, load, now) for load in jobs]
    )
    for load, placement in zip(jobs, found, strict=True):
        assert placement.job == load.job
        assert now < placement.first_at <= first_inside(load, now)
        assert seconds_of(placement.first_at) % load.interval_s == placement.phase_s
        # Once a year a clock leaps over a window of a minute: then there is none for a week.
        if load.window is not None and load.window.next_opening(now) < now + timedelta(days=7):
            assert load.window.is_open(placement.first_at)


@few
@given(NOWS, loads(are_placed=False))
def test_the_same_jobs_are_always_placed_alike(now: datetime, jobs: list[JobLoad]):
    again = place_jobs(LoadRing(now), jobs, now)
    assert place_jobs(LoadRing(now), jobs, now) == again


@few
@given(NOWS, loads(are_placed=False))
def test_a_ring_after_placing_holds_exactly_what_was_placed(now: datetime, jobs: list[JobLoad]):
    ring = LoadRing(now)
    found = place_jobs(ring, jobs, now)
    placed = [replace(load, phase_s=at.phase_s) for load, at in zip(jobs, found, strict=True)]
    assert arrays(ring) == arrays(ring_of(now, placed))


@settings(max_examples=300)
@given(st.data())
def test_a_run_that_goes_from_a_fuller_to_an_emptier_slot_never_lowers_the_score(
    data: st.DataObject,
):
    count = data.draw(st.integers(2, 12))
    counts = st.lists(st.integers(0, 20), min_size=count, max_size=count)
    fixed, movable = np.array(data.draw(counts), float), np.array(data.draw(counts), float)
    together = fixed.copy()
    together[data.draw(st.integers(0, count - 1))] += movable.sum()
    load = fixed + movable
    full = data.draw(st.integers(0, count - 1))
    empty = data.draw(st.integers(0, count - 1))
    if not movable[full] or load[full] <= load[empty]:
        return
    after = load.copy()
    after[full] -= 1
    after[empty] += 1
    assert count_misplaced_runs(after, fixed) <= count_misplaced_runs(load, fixed)
    assert evenness(after, fixed, together) >= evenness(load, fixed, together)


GUARDS = st.sampled_from([MoveGuard(), MoveGuard(timedelta(0), timedelta(0))])
BUDGETS = st.builds(
    MoveBudget,
    st.none() | st.integers(0, 10),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.sampled_from([None, 0.0, 1.0]),
)


def applied(jobs: list[JobLoad], plan: RebalancePlan) -> list[JobLoad]:
    phases = {move.job: move.new_phase_s for move in plan.moves}
    return [replace(load, phase_s=phases.get(load.job, load.phase_s)) for load in jobs]


@few
@given(NOWS, loads(are_placed=True), BUDGETS, GUARDS)
def test_a_plan_keeps_its_promises(
    now: datetime, jobs: list[JobLoad], budget: MoveBudget, guard: MoveGuard
):
    candidates = [
        RebalanceCandidate(
            load, next_beat_at=instant_of(next_beat(load, now)), is_running=load.job % 7 == 3
        )
        for load in jobs
    ]
    plan = plan_rebalance(candidates, now, budget=budget, guard=guard)
    assert plan_rebalance(candidates, now, budget=budget, guard=guard) == plan
    ring = LoadRing(now)
    ring.add_all(applied(jobs, plan))
    assert measure_score(ring) == plan.after
    moved = [move.job for move in plan.moves]
    assert (
        len(set(moved)) == len(moved) <= (budget.max_moves if budget.max_moves is not None else 99)
    )
    assert not set(moved) & {skipped.job for skipped in plan.skipped}
    by_job = {load.job: load for load in jobs}
    for move in plan.moves:
        interval = timedelta(seconds=by_job[move.job].interval_s)
        assert 2 * abs(move.new_next_at - move.old_next_at) <= interval
        assert (
            min(move.old_next_at, move.new_next_at) > now.replace(microsecond=0) + guard.protection
        )
        assert seconds_of(move.new_next_at) % by_job[move.job].interval_s == move.new_phase_s
        assert seconds_of(move.old_next_at) % by_job[move.job].interval_s == move.old_phase_s


def next_beat(load: JobLoad, now: datetime) -> int:
    after = seconds_of(now) + 1
    return after + ((load.phase_s or 0) - after) % load.interval_s


@settings(max_examples=10)
@given(NOWS, st.lists(st.sampled_from([300, 900, 1800, 3600, DAY_S]), min_size=1, max_size=150))
def test_an_even_plan_is_left_alone(now: datetime, intervals: list[int]):
    jobs = [JobLoad(job, interval) for job, interval in enumerate(intervals)]
    found = place_jobs(LoadRing(now), jobs, now)
    even = [replace(load, phase_s=at.phase_s) for load, at in zip(jobs, found, strict=True)]
    plan = plan_rebalance(
        [RebalanceCandidate(load) for load in even],
        now,
        guard=MoveGuard(timedelta(0), timedelta(0)),
    )
    assert plan.moves == ()
