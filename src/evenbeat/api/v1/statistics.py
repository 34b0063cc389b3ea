"""The routes of statistics: of a job, of everything, and of the scheduler itself."""

from uuid import UUID

from fastapi import APIRouter

from evenbeat.api.v1.wire.statistics import JobStatsOut, SchedulerMetricsOut, StatsOut
from evenbeat.core.access import Role
from evenbeat.web.auth import needs
from evenbeat.web.probes import App

router = APIRouter(prefix="/api/v1", tags=["statistics"], dependencies=[needs(Role.VIEWER)])


@router.get("/jobs/{job_id}/stats")
async def job_stats(job_id: UUID, app: App) -> JobStatsOut:
    """What the runs of a job came to."""
    return JobStatsOut.from_core(await app.statistics.of_job(job_id))


@router.get("/stats")
async def stats(app: App) -> StatsOut:
    """What all jobs and runs come to."""
    return StatsOut.from_core(await app.statistics.of_all())


@router.get("/scheduler/metrics")
async def scheduler_metrics(app: App) -> SchedulerMetricsOut:
    """The same in the interval scheduler's words: of the whole cluster, from the database."""
    return SchedulerMetricsOut.from_core(await app.statistics.of_all())
