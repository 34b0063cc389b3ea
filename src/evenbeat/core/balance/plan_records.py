"""Plans and scores as they are kept: what a rebalance would have done, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from evenbeat.core.balance.model import Distribution, Move, Score, SkippedJob

PLAN_LIFETIME = timedelta(minutes=5)
"""How long a plan can be applied: its first moves are half an hour away, and come nearer."""


class PlanState(StrEnum):
    """What became of a plan."""

    PREVIEWED = "previewed"
    EXPIRED = "expired"
    APPLIED = "applied"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """A plan without its moves; `undoes` is the plan that it takes back."""

    id: UUID
    made_at: datetime
    made_by: str
    before: Score
    after: Score
    attainable_score: float
    suggestion: str | None
    move_count: int
    skip_count: int
    # None: over all jobs.
    group: str | None = None
    max_moves: int | None = None
    # The newest change of the load that it knows of.
    seen: int = 0
    job_count: int = 0
    undoes: UUID | None = None
    applied_at: datetime | None = None
    applied_by: str | None = None
    undone_at: datetime | None = None
    undone_by: str | None = None

    @property
    def expires_at(self) -> datetime:
        return self.made_at + PLAN_LIFETIME

    def state(self, now: datetime) -> PlanState:
        if self.undone_at is not None:
            return PlanState.UNDONE
        if self.applied_at is not None:
            return PlanState.APPLIED
        return PlanState.PREVIEWED if now <= self.expires_at else PlanState.EXPIRED


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan with its moves and skips; `uids` are the public ids of the jobs in it."""

    summary: PlanSummary
    moves: tuple[Move, ...]
    skipped: tuple[SkippedJob, ...]
    uids: Mapping[int, UUID]


@dataclass(frozen=True, slots=True)
class ScorePoint:
    """How even the coming day was at an instant, or at worst in the time from it on."""

    at: datetime
    score: Score
    job_count: int


@dataclass(frozen=True, slots=True)
class RebalanceTotals:
    """How many there have been, and what the last one came to."""

    total: int = 0
    moved: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class BalanceFigures:
    """The distribution as a node saw it last, for everyone to read without working it out."""

    taken_at: datetime
    score: Score
    # The jobs that run in each of the next 24 hours.
    job_counts: tuple[int, ...]
    peak_count: int
    rebalances: RebalanceTotals

    @classmethod
    def from_distribution(
        cls, taken_at: datetime, found: Distribution, rebalances: RebalanceTotals
    ) -> "BalanceFigures":
        counts = tuple(hour.job_count for hour in found.hours)
        return cls(taken_at, found.score, counts, found.peak_count, rebalances)
