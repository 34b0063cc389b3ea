"""The routes of statistics: of a job, a kind, a group, everything, by day, and of the scheduler."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from evenbeat.api.v1.ops.wire.statistics import (
    JobStatsOut,
    SchedulerMetricsOut,
    ScopeIn,
    StatsOut,
    TrendIn,
    TrendOut,
)
from evenbeat.core.limits import MOST_DAYS_SHOWN
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import needs
from evenbeat.web.probes import App

Days = Annotated[int, Query(ge=1, le=MOST_DAYS_SHOWN)]

router = APIRouter(prefix="/api/v1", tags=["statistics"], dependencies=[needs(Role.VIEWER)])


@router.get("/jobs/{job_id}/stats")
async def job_stats(job_id: UUID, app: App) -> JobStatsOut:
    """Statistics of the runs of a job."""
    return JobStatsOut.from_core(await app.statistics.of_job(job_id))


@router.get("/jobs/{job_id}/stats/trend")
async def job_trend(job_id: UUID, app: App, days: Days = 30) -> TrendOut:
    """Statistics of the runs of a recurring job, by day."""
    return TrendOut.from_core(await app.statistics.trend_of_job(job_id, days))


@router.get("/stats")
async def stats(app: App, query: Annotated[ScopeIn, Query()]) -> StatsOut:
    """Statistics of all jobs and runs, or of those of a kind or a group."""
    return StatsOut.from_core(await app.statistics.of_all(query.to_core()))


@router.get("/stats/trend")
async def trend(app: App, query: Annotated[TrendIn, Query()]) -> TrendOut:
    """Statistics of runs, by day."""
    return TrendOut.from_core(await app.statistics.trend(query.days, query.to_core()))


@router.get("/scheduler/metrics")
async def scheduler_metrics(app: App) -> SchedulerMetricsOut:
    """Statistics in the interval scheduler's words, of the whole cluster."""
    return SchedulerMetricsOut.from_core(await app.statistics.of_all())
