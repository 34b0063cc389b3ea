"""What a plan makes of the coming day, hour by hour."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from evenbeat.core.balance.model import Distribution, JobLoad, Move, RebalanceCandidate
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.score import measure_distribution


def project_moves(
    candidates: Sequence[RebalanceCandidate], moves: Iterable[Move], now: datetime
) -> tuple[Distribution, Distribution]:
    """The next 24 hours as they are, and as they would be with these moves in force."""
    phases = {move.job: move.new_phase_s for move in moves}
    loads = [candidate.load for candidate in candidates]
    moved = [replace(load, phase_s=phases.get(load.job, load.phase_s)) for load in loads]
    return _distribution(loads, now), _distribution(moved, now)


def _distribution(loads: Iterable[JobLoad], now: datetime) -> Distribution:
    ring = LoadRing(now)
    ring.add_all(loads)
    return measure_distribution(ring)
