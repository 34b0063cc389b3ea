"""The routes of balancing: how even the load is, previews, rebalances and forecasts."""

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from evenbeat.api.v1.balance.wire.balance import (
    DistributionOut,
    PlanOut,
    PlansOut,
    PreviewIn,
    RebalanceIn,
    RebalanceOut,
    RebalancePreviewOut,
    ScoreOut,
    ScoresOut,
    UndoIn,
    WholePlanOut,
)
from evenbeat.api.v1.balance.wire.forecast import ForecastIn, ForecastOut
from evenbeat.api.v1.wire.text_types import Name
from evenbeat.core.limits import LARGEST_PAGE, MOST_DAYS_SHOWN, MOST_WORKERS
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import Caller, needs
from evenbeat.web.idempotency import IdempotentRoute
from evenbeat.web.probes import App

VIEWER, OPERATOR = [needs(Role.VIEWER)], [needs(Role.OPERATOR)]
GroupQuery = Annotated[Name | None, Query(description="only the jobs of this group")]
CHANGED: dict[int | str, dict[str, Any]] = {
    409: {"description": "the plan does not hold any more, or balancing is not on"}
}
LONGEST_REACH_HOURS = 24 * MOST_DAYS_SHOWN

router = APIRouter(prefix="/api/v1/scheduler", tags=["balancing"], route_class=IdempotentRoute)


@router.get("/distribution", dependencies=VIEWER)
async def get_distribution(app: App, group: GroupQuery = None) -> DistributionOut:
    """The load of the next 24 hours, how even it is, and what a rebalance would gain."""
    return DistributionOut.from_core(await app.balance.view(group=group))


@router.post("/rebalance/preview", dependencies=OPERATOR)
async def preview_rebalance(
    app: App, caller: Caller, body: PreviewIn | None = None
) -> RebalancePreviewOut:
    """What a rebalance would do. Nothing is moved; the plan is stored, to be applied as it is."""
    wanted = body or PreviewIn()
    preview = await app.balance.preview(
        group=wanted.group, max_moves=wanted.max_moves, by=caller.actor
    )
    return RebalancePreviewOut.from_core(preview)


@router.post("/rebalance", dependencies=OPERATOR, responses=CHANGED)
async def rebalance(app: App, caller: Caller, body: RebalanceIn | None = None) -> RebalanceOut:
    """Apply a plan as its preview showed it; without a plan, make one and apply it at once."""
    wanted = (body or RebalanceIn()).check()
    if wanted.plan_id is not None:
        return RebalanceOut.from_core(await app.balance.apply(wanted.plan_id, by=caller.actor))
    applied = await app.balance.rebalance(
        group=wanted.group, max_moves=wanted.max_moves, by=caller.actor
    )
    return RebalanceOut.from_core(applied)


@router.post("/rebalance/undo", dependencies=OPERATOR, responses=CHANGED)
async def undo_rebalance(app: App, caller: Caller, body: UndoIn | None = None) -> RebalanceOut:
    """Undo the last rebalance: its jobs return to where they were."""
    plan_id = None if body is None else body.plan_id
    return RebalanceOut.from_core(await app.balance.undo(plan_id, by=caller.actor))


@router.get("/rebalance/plans", dependencies=VIEWER)
async def list_plans(
    app: App, limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 50
) -> PlansOut:
    """Plans and what became of them, newest first."""
    plans, now = await app.balance.plans(limit=limit), await app.now()
    return PlansOut(plans=[PlanOut.from_core(plan, now) for plan in plans])


@router.get("/rebalance/plans/{plan_id}", dependencies=VIEWER)
async def get_plan(plan_id: UUID, app: App) -> WholePlanOut:
    """A plan with its moves, and the jobs that it does not move."""
    return WholePlanOut.from_core(await app.balance.plan(plan_id), await app.now())


@router.get("/score/history", dependencies=VIEWER)
async def score_history(
    app: App, hours: Annotated[int, Query(ge=1, le=LONGEST_REACH_HOURS)] = 24
) -> ScoresOut:
    """How even the load has been. A long time is cut into parts, with the worst of each."""
    points = await app.balance.score_history(timedelta(hours=hours))
    scores = [ScoreOut.from_core(point) for point in points]
    return ScoresOut(threshold=app.settings.score_threshold, scores=scores)


@router.get("/forecast", dependencies=VIEWER)
async def get_forecast(
    app: App,
    group: GroupQuery = None,
    workers: Annotated[int | None, Query(ge=1, le=MOST_WORKERS)] = None,
) -> ForecastOut:
    """The load of each slot of the coming week, and whether this many workers suffice."""
    return ForecastOut.from_core(await app.balance.forecast(group=group, workers=workers))


@router.post("/forecast", dependencies=VIEWER)
async def forecast_with_jobs(body: ForecastIn, app: App) -> ForecastOut:
    """The same with jobs that do not exist yet."""
    found = await app.balance.forecast(group=body.group, workers=body.workers, added=body.to_core())
    return ForecastOut.from_core(found)
