"""Taking a rebalance back: every job that is still where it was put returns."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from evenbeat.core.balance.model import (
    Move,
    MoveGuard,
    RebalanceCandidate,
    SkippedJob,
    SkipReason,
    seconds_of,
)
from evenbeat.core.balance.rebalance import build_move

_GUARD = MoveGuard()


def undo_moves(
    moves: Iterable[Move], jobs: Mapping[int, RebalanceCandidate], now: datetime
) -> tuple[tuple[Move, ...], tuple[SkippedJob, ...]]:
    """The moves back, and the jobs that have gone elsewhere since.

    No cooldown holds a job back: otherwise no rebalance could be undone for an hour.
    """
    back: list[Move] = []
    skipped: list[SkippedJob] = []
    for move in moves:
        job = jobs.get(move.job)
        if job is None or job.load.phase_s != move.new_phase_s:
            skipped.append(SkippedJob(move.job, SkipReason.CHANGED))
        else:
            back.append(_cancel_move(move, now) or _reverse_move(job, move, now))
    return tuple(back), tuple(skipped)


def _cancel_move(move: Move, now: datetime) -> Move | None:
    """The way back of a move that has not begun: the job goes on as if there had been none."""
    if min(move.old_next_at, move.new_next_at) <= now:
        return None
    return Move(
        move.job,
        old_phase_s=move.new_phase_s,
        new_phase_s=move.old_phase_s,
        old_next_at=move.new_next_at,
        new_next_at=move.old_next_at,
        effective_from=move.old_next_at,
    )


def _reverse_move(job: RebalanceCandidate, move: Move, now: datetime) -> Move:
    limit_s = seconds_of(now) + _GUARD.protection // timedelta(seconds=1)
    return build_move(job, replace(job.load, phase_s=move.old_phase_s), now, limit_s)
