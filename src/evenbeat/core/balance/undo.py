"""Taking a rebalance back: every job that is still where it was put returns."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from evenbeat.core.balance.model import Candidate, Guard, Move, Reason, Skipped, seconds_of
from evenbeat.core.balance.rebalance import move_to

_GUARD = Guard()


def take_back(
    moves: Iterable[Move], jobs: Mapping[int, Candidate], now: datetime
) -> tuple[tuple[Move, ...], tuple[Skipped, ...]]:
    """The moves back, and the jobs that have gone elsewhere since.

    No cooldown holds anybody: it would make every rebalance final for an hour.
    """
    back: list[Move] = []
    skipped: list[Skipped] = []
    for move in moves:
        job = jobs.get(move.job)
        if job is None or job.load.phase_s != move.new_phase_s:
            skipped.append(Skipped(move.job, Reason.CHANGED))
        else:
            back.append(_called_off(move, now) or _returned(job, move, now))
    return tuple(back), tuple(skipped)


def _called_off(move: Move, now: datetime) -> Move | None:
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


def _returned(job: Candidate, move: Move, now: datetime) -> Move:
    limit_s = seconds_of(now) + _GUARD.protection // timedelta(seconds=1)
    return move_to(job, replace(job.load, phase_s=move.old_phase_s), now, limit_s)
