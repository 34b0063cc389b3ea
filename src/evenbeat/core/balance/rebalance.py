"""Rebalance: the fewest moves that pay, and for every job that stays put, why."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from evenbeat.core.balance.ideal_load import count_unavoidable_runs, even_level, spread_window_load
from evenbeat.core.balance.leveling import Leveler, lower_peak, lower_to_level
from evenbeat.core.balance.model import (
    MINUTE_S,
    SLOT_S,
    WEEK_S,
    JobLoad,
    Move,
    MoveBudget,
    MoveGuard,
    RebalanceCandidate,
    RebalancePlan,
    Score,
    SkippedJob,
    SkipReason,
    instant_of,
    seconds_of,
)
from evenbeat.core.balance.phase_grid import Numbers
from evenbeat.core.balance.phase_search import find_placement
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.score import measure_score, suggest_rebalance

_SECOND = timedelta(seconds=1)
WORTH_MOVING = 0.01
"""What all moves together must gain, in the score of the week or as a share of its peak."""

_DEFAULT_BUDGET, _DEFAULT_GUARD = MoveBudget(), MoveGuard()


def plan_rebalance(
    candidates: Sequence[RebalanceCandidate],
    now: datetime,
    *,
    budget: MoveBudget = _DEFAULT_BUDGET,
    guard: MoveGuard = _DEFAULT_GUARD,
) -> RebalancePlan:
    """What to move, so that the coming week is even. The same for preview and for apply.

    Jobs that cannot move are put on the ring first: what moves finds its place around them.
    """
    reasons = {each.load.job: _find_skip_reason(each, now, guard) for each in candidates}
    skipped = tuple(SkippedJob(job, why) for job, why in reasons.items() if why is not None)
    movable = [each.load for each in candidates if reasons[each.load.job] is None]
    staying = LoadRing(now)
    staying.add_all(each.load for each in candidates if reasons[each.load.job] is not None)
    given = staying.copy()
    given.add_all(movable)
    before, week_before = measure_score(given), measure_score(given, WEEK_S)
    # Where the even level is out of reach, a lower peak may cost evenness elsewhere. Then only
    # what brings slots down to the level is moved.
    for relieve in (lower_peak, lower_to_level):
        ring = given.copy()
        moved, after = _apply_moves(ring, _RebalanceTask(movable, staying, relieve, now, budget))
        if _pays(week_before, measure_score(ring, WEEK_S)):
            break
    else:
        return RebalancePlan((), skipped, before, before, before.score)
    by_job = {each.load.job: each for each in candidates}
    limit_s = seconds_of(now) + guard.protection // _SECOND
    moves = tuple(build_move(by_job[old.job], new, now, limit_s) for old, new in moved)
    plan = RebalancePlan(moves, skipped, before, after, measure_score(ring).score)
    return replace(plan, suggestion=suggest_rebalance(plan, ring.job_count))


@dataclass(frozen=True, slots=True)
class _RebalanceTask:
    """Which jobs to move, around which others, how, and how many."""

    movable: list[JobLoad]
    staying: LoadRing
    relieve: Callable[
        [LoadRing, Iterable[JobLoad], Numbers, datetime], Iterator[tuple[JobLoad, JobLoad]]
    ]
    now: datetime
    budget: MoveBudget

    def fixed(self, ring: LoadRing, bin_s: int) -> Numbers:
        """What stays, and what no choice of phases changes about the rest."""
        held = self.staying.slot if bin_s == SLOT_S else self.staying.minute
        own = count_unavoidable_runs(ring, bin_s) - count_unavoidable_runs(self.staying, bin_s)
        bound_more = (
            spread_window_load(ring, bin_s) - spread_window_load(self.staying, bin_s)
        ).clip(0)
        return held.astype(np.float64) + own + bound_more


def _apply_moves(
    ring: LoadRing, task: _RebalanceTask
) -> tuple[list[tuple[JobLoad, JobLoad]], Score]:
    """Move on the ring to the end, and say what the budget allows and how even that is.

    It goes on beyond the budget to find the score that could be attained.
    """
    moved: list[tuple[JobLoad, JobLoad]] = []
    after: Score | None = None
    for old, new in _all_moves(ring, task):
        if len(moved) != task.budget.max_moves:
            moved.append((old, new))
        elif after is None:
            # The first beyond the budget has been made already: how even was it without?
            without = ring.copy()
            without.remove(new)
            without.add(old)
            after = measure_score(without)
    return moved, after or measure_score(ring)


def _all_moves(ring: LoadRing, task: _RebalanceTask) -> Iterator[tuple[JobLoad, JobLoad]]:
    level = even_level(ring.slot, task.fixed(ring, SLOT_S), task.budget.tolerance)
    left = {load.job: load for load in task.movable if not load.is_pinned}
    for old, new in task.relieve(ring, list(left.values()), level, task.now):
        left.pop(old.job)
        yield old, new
    pinned = [load for load in task.movable if load.is_pinned]
    yield from _use_slack(ring, pinned, level, task.now)
    if task.budget.minute_tolerance is not None:
        fixed = task.fixed(ring, MINUTE_S)
        level = even_level(ring.minute, fixed, task.budget.minute_tolerance)
        yield from Leveler(ring, level, task.now, bin_s=MINUTE_S).moves(left.values())


def _use_slack(
    ring: LoadRing, loads: list[JobLoad], level: Numbers, now: datetime
) -> Iterator[tuple[JobLoad, JobLoad]]:
    """Pinned jobs with slack leave full slots too, as far as they may."""
    for old in loads:
        slots = ring.starts_of(old) // SLOT_S
        relieved = int((ring.slot[slots] > level[slots]).sum())
        if not relieved:
            continue
        ring.remove(old)
        new = replace(old, phase_s=find_placement(ring, old, now).phase_s)
        slots = ring.starts_of(new) // SLOT_S
        pays = relieved > int((ring.slot[slots] >= level[slots]).sum())
        ring.add(new if pays else old)
        if pays:
            yield old, new


def _pays(before: Score, after: Score) -> bool:
    if after.score < before.score or after.peak > before.peak:
        return False
    return (
        after.score - before.score >= WORTH_MOVING
        or after.minute_score - before.minute_score >= WORTH_MOVING
        or before.peak - after.peak >= max(1.0, WORTH_MOVING * before.peak)
    )


# --- which jobs may move, and from when on ------------------------------------------------------


def _find_skip_reason(
    candidate: RebalanceCandidate, now: datetime, guard: MoveGuard
) -> SkipReason | None:
    load = candidate.load
    if load.is_fixed or (load.is_pinned and not load.has_slack):
        return SkipReason.PINNED
    if candidate.is_running:
        return SkipReason.RUNNING
    next_at, placed_at = candidate.next_beat_at, candidate.last_placed_at
    is_protected = next_at is not None and next_at <= now + guard.protection
    if is_protected and _period_s(load) > guard.short_s:
        return SkipReason.PROTECTED
    if placed_at is not None and now - placed_at < guard.cooldown:
        return SkipReason.COOLING
    # It would move from a later beat on than it does already.
    if candidate.is_moving and _period_s(load) <= guard.short_s:
        return SkipReason.COOLING
    return None


def _period_s(load: JobLoad) -> int:
    if not load.is_pinned:
        return load.interval_s
    return int(np.diff(load.pinned_at).min()) if len(load.pinned_at) > 1 else WEEK_S


def build_move(candidate: RebalanceCandidate, new: JobLoad, now: datetime, limit_s: int) -> Move:
    """Beats up to the limit stay; the first whose old and new place are both later moves.

    The new phase begins at its beat nearest to the old one, half an interval away at most.
    """
    old = candidate.load
    old_phase, new_phase = old.phase_s or 0, new.phase_s or 0
    if old.is_pinned:
        shift = new_phase - old_phase
        beats = (at + old_phase for at in old.pinned_at)
        beat = next((at for at in beats if min(at, at + shift) > limit_s), limit_s + 1)
    else:
        interval = old.interval_s
        shift = (new_phase - old_phase + interval // 2) % interval - interval // 2
        earliest = max(limit_s + 1, limit_s + 1 - shift, _next_s(candidate, now))
        beat = earliest + (old_phase - earliest) % interval
        beat = _inside(new, beat, shift)
    moved_at = instant_of(beat + shift)
    return Move(old.job, old_phase, new_phase, instant_of(beat), moved_at, moved_at)


def _next_s(candidate: RebalanceCandidate, now: datetime) -> int:
    """The first second at which the job may beat next."""
    after = seconds_of(now) + 1
    next_at = candidate.next_beat_at
    return after if next_at is None else max(after, seconds_of(next_at))


def _inside(load: JobLoad, beat: int, shift: int) -> int:
    """The first of these beats whose new place the window allows."""
    if load.window is None:
        return beat
    for later in range(beat, beat + 2 * WEEK_S, load.interval_s):
        if load.window.is_open(instant_of(later + shift)):
            return later
    return beat
