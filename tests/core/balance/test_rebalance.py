"""Rebalancing: few moves that pay, and a reason for every job that stays."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from evenbeat.core.balance.bulk_placement import place_jobs
from evenbeat.core.balance.model import (
    DAY_S,
    HOUR_S,
    WEEK_S,
    JobLoad,
    MoveBudget,
    MoveGuard,
    RebalanceCandidate,
    SkipReason,
    seconds_of,
)
from evenbeat.core.balance.rebalance import plan_rebalance
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.score import measure_score
from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.window import Window

NOW = datetime(2030, 1, 2, 10, 7, 23, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)
HOUR = timedelta(hours=1)
FREE = MoveGuard(protection=timedelta(0), cooldown=timedelta(0))


def herd(count: int, interval: int = DAY_S, phase: int = 0) -> list[RebalanceCandidate]:
    return [RebalanceCandidate(JobLoad(job, interval, phase)) for job in range(count)]


def test_a_herd_is_taken_apart():
    plan = plan_rebalance(herd(96), NOW)
    assert plan.before.peak == 96
    assert plan.after.peak == 1
    assert plan.after.score == plan.attainable_score == 1.0
    assert len(plan.moves) == 95
    assert plan.suggestion == (
        f"Moving 95 of 96 jobs cuts the peak from 96 to 1 (score {plan.before.score:.2f} to 1.00)"
    )


def test_a_budget_takes_the_moves_that_pay_most_first():
    jobs = [*herd(50), *(RebalanceCandidate(JobLoad(100 + job, HOUR_S, 0)) for job in range(40))]
    plan = plan_rebalance(jobs, NOW, budget=MoveBudget(max_moves=10))
    assert len(plan.moves) == 10
    assert all(move.job >= 100 for move in plan.moves), "an hourly job brings 24 times as much"
    assert plan.before.score < plan.after.score < plan.attainable_score


def test_a_budget_of_nothing_moves_nothing_and_still_says_what_could_be():
    plan = plan_rebalance(herd(96), NOW, budget=MoveBudget(max_moves=0))
    assert not plan.moves
    assert plan.after == plan.before
    assert plan.attainable_score == 1.0


def test_an_even_plan_is_left_alone():
    ring = LoadRing(NOW)
    loads = [JobLoad(job, HOUR_S * (1 + job % 4)) for job in range(500)]
    placed = place_jobs(ring, loads, NOW)
    even = [replace(load, phase_s=at.phase_s) for load, at in zip(loads, placed, strict=True)]
    plan = plan_rebalance([RebalanceCandidate(load) for load in even], NOW, guard=FREE)
    assert plan.moves == ()
    assert plan.suggestion is None
    assert plan.after == plan.before


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (RebalanceCandidate(JobLoad(0, pinned_at=(seconds_of(NOW) + 60,))), SkipReason.PINNED),
        (RebalanceCandidate(JobLoad(0, DAY_S, 0), is_running=True), SkipReason.RUNNING),
        (
            RebalanceCandidate(JobLoad(0, DAY_S, 0), next_beat_at=NOW + HALF_HOUR),
            SkipReason.PROTECTED,
        ),
        (
            RebalanceCandidate(
                JobLoad(0, DAY_S, 0), last_placed_at=NOW - HOUR + timedelta(microseconds=1)
            ),
            SkipReason.COOLING,
        ),
        (RebalanceCandidate(JobLoad(0, HOUR_S, 0), is_running=True), SkipReason.RUNNING),
    ],
    ids=lambda value: str(value) if isinstance(value, SkipReason) else "",
)
def test_who_stays_is_told_why(candidate: RebalanceCandidate, reason: SkipReason):
    others = [RebalanceCandidate(JobLoad(1 + job, DAY_S, 0)) for job in range(50)]
    plan = plan_rebalance([candidate, *others], NOW)
    assert [(each.job, each.reason) for each in plan.skipped] == [(0, reason)]
    assert 0 not in [move.job for move in plan.moves]


@pytest.mark.parametrize(
    "candidate",
    [
        RebalanceCandidate(
            JobLoad(0, DAY_S, 0), next_beat_at=NOW + HALF_HOUR + timedelta(microseconds=1)
        ),
        RebalanceCandidate(JobLoad(0, DAY_S, 0), last_placed_at=NOW - HOUR),
        RebalanceCandidate(
            JobLoad(0, HOUR_S + HOUR_S // 2, 0), next_beat_at=NOW + timedelta(minutes=1)
        ),
    ],
    ids=["after the window", "cooled down", "short interval"],
)
def test_the_protection_window_includes_its_end_and_the_cooldown_does_not(
    candidate: RebalanceCandidate,
):
    assert plan_rebalance([candidate], NOW).skipped == ()


def test_a_short_job_about_to_run_does_so_and_moves_afterwards():
    jobs = [
        RebalanceCandidate(load.load, next_beat_at=datetime(2030, 1, 2, 10, 30, tzinfo=UTC))
        for load in herd(40, 1800)
    ]
    plan = plan_rebalance(jobs, NOW)
    assert len(plan.moves) > 15
    for move in plan.moves:
        assert move.effective_from == move.new_next_at > NOW + HALF_HOUR
        assert move.old_next_at > NOW + HALF_HOUR
        assert abs(move.new_next_at - move.old_next_at) <= timedelta(minutes=15)
        assert seconds_of(move.new_next_at) % 1800 == move.new_phase_s
        assert seconds_of(move.old_next_at) % 1800 == move.old_phase_s


def test_movable_jobs_find_their_place_around_those_that_stay():
    staying = [
        RebalanceCandidate(JobLoad(job, DAY_S, job * 900), is_running=True) for job in range(48)
    ]
    moving = [RebalanceCandidate(JobLoad(100 + job, DAY_S, 40 * HOUR_S // 2)) for job in range(48)]
    plan = plan_rebalance([*staying, *moving], NOW, guard=FREE)
    assert plan.after.peak == 1
    assert len(plan.skipped) == 48


def test_what_the_plan_promises_is_what_its_moves_make():
    jobs = [
        *herd(200),
        *(RebalanceCandidate(JobLoad(300 + job, 7 * HOUR_S, 0)) for job in range(100)),
    ]
    for budget in (MoveBudget(), MoveBudget(max_moves=37)):
        plan = plan_rebalance(jobs, NOW, budget=budget)
        phases = {move.job: move.new_phase_s for move in plan.moves}
        ring = LoadRing(NOW)
        ring.add_all(
            replace(job.load, phase_s=phases.get(job.load.job, job.load.phase_s)) for job in jobs
        )
        assert measure_score(ring) == plan.after
        assert plan_rebalance(jobs, NOW, budget=budget) == plan


def test_starts_within_a_slot_are_nudged_apart_without_changing_slots():
    jobs = herd(15, 900)
    plan = plan_rebalance(jobs, NOW, budget=MoveBudget(minute_tolerance=0.0), guard=FREE)
    assert plan.before.score == plan.after.score == 1.0
    assert plan.after.minute_score == 1.0
    assert len(plan.moves) == 14
    assert not plan_rebalance(jobs, NOW, budget=MoveBudget(minute_tolerance=None), guard=FREE).moves


def test_no_job_moves_twice_though_slots_and_minutes_are_evened_out():
    budget = MoveBudget(tolerance=0.0, minute_tolerance=0.0)
    plan = plan_rebalance(herd(300, HOUR_S), NOW, budget=budget, guard=FREE)
    moved = [move.job for move in plan.moves]
    assert len(set(moved)) == len(moved) == 295
    assert (plan.after.score, plan.after.minute_score) == (1.0, 1.0)


def test_a_windowed_herd_is_taken_apart_inside_its_window():
    night = Window.parse("22:00-06:00 Europe/Berlin")
    jobs = [RebalanceCandidate(JobLoad(job, DAY_S, 12 * HOUR_S, window=night)) for job in range(64)]
    plan = plan_rebalance(jobs, NOW, guard=FREE)
    assert plan.before.peak == 64, "all wait for the opening"
    assert plan.after.peak <= 2 + 1
    assert all(night.is_open(move.new_next_at) for move in plan.moves)


def test_slack_is_used_by_a_rebalance():
    hours = tuple(range(seconds_of(NOW) // 900 * 900 + 900, seconds_of(NOW) + WEEK_S, 6 * HOUR_S))
    jobs = [RebalanceCandidate(JobLoad(job, pinned_at=hours, within_s=HOUR_S)) for job in range(20)]
    stuck = RebalanceCandidate(JobLoad(99, pinned_at=hours))
    plan = plan_rebalance([*jobs, stuck], NOW, guard=FREE)
    assert plan.after.peak < plan.before.peak
    assert all(0 <= move.new_phase_s <= HOUR_S for move in plan.moves)
    assert [each.job for each in plan.skipped] == [99]


def test_a_budget_that_makes_no_sense_is_refused():
    for wrong in ({"max_moves": -1}, {"tolerance": -0.1}, {"minute_tolerance": -1.0}):
        with pytest.raises(InvalidInput):
            MoveBudget(**wrong)
