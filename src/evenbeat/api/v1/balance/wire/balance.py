"""The distribution of the load and rebalances of it, as clients see them."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from evenbeat.api.v1.wire.text_types import Name
from evenbeat.control.balance.balance import BalanceView, RebalancePreview, RebalanceResult
from evenbeat.core.balance.model import DAY_S, HOUR_S, MINUTE_S, SLOT_S, HourLoad
from evenbeat.core.balance.plan_records import PlanState, PlanSummary, ScorePoint, StoredPlan
from evenbeat.core.errors import InvalidInput
from evenbeat.core.limits import MOST_MOVES

# Strict models refuse a text for a UUID, but JSON has nothing else.
PlanId = Annotated[UUID, Field(strict=False)]
MaxMoves = Annotated[int, Field(ge=0, le=MOST_MOVES)]


class HourOut(BaseModel):
    """One of the next 24 hours; `hour` counts from now on."""

    hour: int
    starts_at: datetime
    job_count: int
    runs: int

    @classmethod
    def from_core(cls, hour: HourLoad) -> Self:
        return cls(
            hour=hour.hour, starts_at=hour.starts_at, job_count=hour.job_count, runs=hour.runs
        )


class DistributionOut(BaseModel):
    """The load of the next 24 hours, how even it is, and what a rebalance would gain."""

    window_hours: int = DAY_S // HOUR_S
    slot_minutes: int = SLOT_S // MINUTE_S
    group: str | None
    balancing: str
    total_jobs: int
    hourly_distribution: list[HourOut]
    distribution_score: float
    minute_score: float
    attainable_score: float | None
    peak_hour: int
    peak_count: int
    peak_over_ideal: float
    suggestion: str

    @classmethod
    def from_core(cls, view: BalanceView) -> Self:
        found = view.distribution
        return cls(
            group=view.group,
            balancing=view.balancing,
            total_jobs=found.total_jobs,
            hourly_distribution=[HourOut.from_core(hour) for hour in found.hours],
            distribution_score=found.score.score,
            minute_score=found.score.minute_score,
            attainable_score=view.attainable_score,
            peak_hour=found.peak_hour,
            peak_count=found.peak_count,
            peak_over_ideal=found.score.peak_over_ideal,
            suggestion=view.suggestion,
        )


class PreviewIn(BaseModel):
    """Which group to rebalance, and with how many moves at most."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"max_moves": 100}]}
    )

    group: Name | None = None
    max_moves: MaxMoves | None = None


class RebalanceIn(PreviewIn):
    """The plan of a preview; or what to plan and apply at once."""

    plan_id: PlanId | None = None

    def check(self) -> Self:
        if self.plan_id is not None:
            for field in ("group", "max_moves"):
                if getattr(self, field) is not None:
                    raise InvalidInput(field, "is settled by the plan: leave one of both out")
        return self


class UndoIn(BaseModel):
    """The plan to undo, which must be the last one applied."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{}]})

    plan_id: PlanId | None = None


class SkippedOut(BaseModel):
    """A job that stays where it is, and why."""

    job_id: UUID
    reason: str


class ProposedOut(BaseModel):
    """A job that would move: the beat at `current_time` would come at `proposed_time`."""

    job_id: UUID
    current_time: datetime
    proposed_time: datetime
    effective_from: datetime


class MovedOut(BaseModel):
    """A job that moved: the beat at `old_time` comes at `new_time`; earlier ones stay."""

    job_id: UUID
    old_time: datetime
    new_time: datetime
    effective_from: datetime


class RebalancePreviewOut(BaseModel):
    """What a rebalance would do. Applying the plan does exactly that, or nothing."""

    plan_id: UUID
    expires_at: datetime
    group: str | None
    max_moves: int | None
    would_move: int
    would_skip: int
    current_score: float
    projected_score: float
    attainable_score: float
    current_minute_score: float
    projected_minute_score: float
    suggestion: str | None
    preview: list[ProposedOut]
    skipped: list[SkippedOut]
    current_distribution: list[HourOut]
    projected_distribution: list[HourOut]

    @classmethod
    def from_core(cls, preview: RebalancePreview) -> Self:
        summary = preview.plan.summary
        return cls(
            plan_id=summary.id,
            expires_at=summary.expires_at,
            group=summary.group,
            max_moves=summary.max_moves,
            would_move=summary.move_count,
            would_skip=summary.skip_count,
            current_score=summary.before.score,
            projected_score=summary.after.score,
            attainable_score=summary.attainable_score,
            current_minute_score=summary.before.minute_score,
            projected_minute_score=summary.after.minute_score,
            suggestion=summary.suggestion,
            preview=[
                ProposedOut(
                    job_id=preview.plan.uids[move.job],
                    current_time=move.old_next_at,
                    proposed_time=move.new_next_at,
                    effective_from=move.effective_from,
                )
                for move in preview.plan.moves
            ],
            skipped=skipped_jobs(preview.plan),
            current_distribution=[HourOut.from_core(hour) for hour in preview.current.hours],
            projected_distribution=[HourOut.from_core(hour) for hour in preview.projected.hours],
        )


class RebalanceOut(BaseModel):
    """What a rebalance did."""

    plan_id: UUID
    undoes: UUID | None
    group: str | None
    moved: list[MovedOut]
    skipped: list[SkippedOut]
    old_distribution_score: float
    new_distribution_score: float

    @classmethod
    def from_core(cls, applied: RebalanceResult) -> Self:
        summary = applied.plan.summary
        return cls(
            plan_id=summary.id,
            undoes=summary.undoes,
            group=summary.group,
            moved=moved_jobs(applied.plan),
            skipped=skipped_jobs(applied.plan),
            old_distribution_score=summary.before.score,
            new_distribution_score=applied.score.score,
        )


class PlanOut(BaseModel):
    """A plan, and what became of it."""

    plan_id: UUID
    state: PlanState
    made_at: datetime
    made_by: str
    expires_at: datetime
    group: str | None
    max_moves: int | None
    move_count: int
    skip_count: int
    current_score: float
    projected_score: float
    attainable_score: float
    suggestion: str | None
    undoes: UUID | None
    applied_at: datetime | None
    applied_by: str | None
    undone_at: datetime | None
    undone_by: str | None

    @classmethod
    def from_core(cls, plan: PlanSummary, now: datetime) -> Self:
        return cls(
            plan_id=plan.id,
            state=plan.state(now),
            made_at=plan.made_at,
            made_by=plan.made_by,
            expires_at=plan.expires_at,
            group=plan.group,
            max_moves=plan.max_moves,
            move_count=plan.move_count,
            skip_count=plan.skip_count,
            current_score=plan.before.score,
            projected_score=plan.after.score,
            attainable_score=plan.attainable_score,
            suggestion=plan.suggestion,
            undoes=plan.undoes,
            applied_at=plan.applied_at,
            applied_by=plan.applied_by,
            undone_at=plan.undone_at,
            undone_by=plan.undone_by,
        )


class PlansOut(BaseModel):
    """Plans, newest first."""

    plans: list[PlanOut]


class WholePlanOut(BaseModel):
    """A plan with its moves, and the jobs that it does not move."""

    plan: PlanOut
    moves: list[MovedOut]
    skipped: list[SkippedOut]

    @classmethod
    def from_core(cls, plan: StoredPlan, now: datetime) -> Self:
        return cls(
            plan=PlanOut.from_core(plan.summary, now),
            moves=moved_jobs(plan),
            skipped=skipped_jobs(plan),
        )


class ScoreOut(BaseModel):
    """How even the coming day was, at worst, at this time."""

    at: datetime
    score: float
    minute_score: float
    peak: int
    peak_over_ideal: float
    total_jobs: int

    @classmethod
    def from_core(cls, point: ScorePoint) -> Self:
        return cls(
            at=point.at,
            score=point.score.score,
            minute_score=point.score.minute_score,
            peak=point.score.peak,
            peak_over_ideal=point.score.peak_over_ideal,
            total_jobs=point.job_count,
        )


class ScoresOut(BaseModel):
    """The history of the score, oldest first."""

    threshold: float
    scores: list[ScoreOut]


def moved_jobs(plan: StoredPlan) -> list[MovedOut]:
    return [
        MovedOut(
            job_id=plan.uids[move.job],
            old_time=move.old_next_at,
            new_time=move.new_next_at,
            effective_from=move.effective_from,
        )
        for move in plan.moves
    ]


def skipped_jobs(plan: StoredPlan) -> list[SkippedOut]:
    return [
        SkippedOut(job_id=plan.uids[each.job], reason=str(each.reason)) for each in plan.skipped
    ]
