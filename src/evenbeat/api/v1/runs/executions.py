"""The routes of runs, which the interval scheduler's clients call executions."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from evenbeat.api.v1.runs.wire.execution import ExecutionOut, ExecutionsOut
from evenbeat.core.jobs.ids import run_id
from evenbeat.core.limits import LARGEST_OFFSET, LARGEST_PAGE
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import needs
from evenbeat.web.probes import App

router = APIRouter(prefix="/api/v1", tags=["executions"], dependencies=[needs(Role.VIEWER)])


@router.get("/jobs/{job_id}/executions")
async def list_executions(
    job_id: UUID,
    app: App,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 50,
    offset: Annotated[int, Query(ge=0, le=LARGEST_OFFSET)] = 0,
    skipped: Annotated[bool, Query(description="beats that were not run as well")] = False,
) -> ExecutionsOut:
    """The runs of a job, newest first, the one in hand included."""
    page = await app.runs.of_job(job_id, limit=limit, offset=offset, with_skipped=skipped)
    return ExecutionsOut.from_core(page, limit=limit, offset=offset)


@router.get("/executions/{execution_id}")
async def get_execution(execution_id: UUID, app: App) -> ExecutionOut:
    """One run."""
    return ExecutionOut.from_core(await app.runs.get(run_id(execution_id)))
