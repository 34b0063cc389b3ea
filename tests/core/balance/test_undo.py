"""Taking a rebalance back: to where every job was, without a run too many or too few."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from evenbeat.core.balance.model import (
    DAY_S,
    HOUR_S,
    JobLoad,
    RebalanceCandidate,
    SkipReason,
    seconds_of,
)
from evenbeat.core.balance.projection import project_moves
from evenbeat.core.balance.rebalance import plan_rebalance
from evenbeat.core.balance.undo import undo_moves

NOW = datetime(2030, 1, 2, 10, 7, 23, tzinfo=UTC)


def herd(count: int, interval_s: int) -> list[RebalanceCandidate]:
    next_at = NOW + timedelta(seconds=interval_s)
    phase = seconds_of(next_at) % interval_s
    return [RebalanceCandidate(JobLoad(job, interval_s, phase), next_at) for job in range(count)]


def moved(jobs: list[RebalanceCandidate], plan) -> dict[int, RebalanceCandidate]:
    """The jobs as they are once a plan has been carried out."""
    there = {job.load.job: job for job in jobs}
    for move in plan.moves:
        load = replace(there[move.job].load, phase_s=move.new_phase_s)
        there[move.job] = RebalanceCandidate(load, move.new_next_at, NOW)
    return there


def test_a_move_that_has_not_begun_is_called_off():
    jobs = herd(20, DAY_S)
    plan = plan_rebalance(jobs, NOW)
    back, skipped = undo_moves(plan.moves, moved(jobs, plan), NOW + timedelta(minutes=5))
    assert not skipped
    assert len(back) == len(plan.moves) > 10
    for there, again in zip(plan.moves, back, strict=True):
        assert (again.old_phase_s, again.new_phase_s) == (there.new_phase_s, there.old_phase_s)
        assert (again.old_next_at, again.new_next_at) == (there.new_next_at, there.old_next_at)


def test_a_move_that_has_begun_is_taken_back_like_any_other():
    jobs = herd(20, HOUR_S)
    plan = plan_rebalance(jobs, NOW)
    later = max(max(move.old_next_at, move.new_next_at) for move in plan.moves)
    back, _ = undo_moves(plan.moves, moved(jobs, plan), later)
    assert len(back) == len(plan.moves) > 10
    for there, again in zip(plan.moves, back, strict=True):
        assert again.new_phase_s == there.old_phase_s
        assert min(again.old_next_at, again.new_next_at) > later + timedelta(minutes=30)
        assert abs(again.new_next_at - again.old_next_at) <= timedelta(seconds=HOUR_S / 2)
        assert seconds_of(again.new_next_at) % HOUR_S == there.old_phase_s


def test_whoever_has_gone_elsewhere_stays_there_and_says_so():
    jobs = herd(10, DAY_S)
    plan = plan_rebalance(jobs, NOW)
    there = moved(jobs, plan)
    first, second, *rest = plan.moves
    there[first.job] = replace(there[first.job], load=JobLoad(first.job, DAY_S, 77))
    del there[second.job]
    back, skipped = undo_moves(plan.moves, there, NOW)
    assert {each.job: each.reason for each in skipped} == {
        first.job: SkipReason.CHANGED,
        second.job: SkipReason.CHANGED,
    }
    assert [move.job for move in back] == [move.job for move in rest]


def test_a_projection_shows_the_hours_without_and_with_the_moves():
    jobs = herd(24, DAY_S)
    plan = plan_rebalance(jobs, NOW)
    now, then = project_moves(jobs, plan.moves, NOW)
    assert max(hour.runs for hour in now.hours) == 24
    assert max(hour.runs for hour in then.hours) <= 4
    assert (now.score, then.score) == (plan.before, plan.after)
