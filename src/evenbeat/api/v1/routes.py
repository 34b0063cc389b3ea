"""The routes of /api/v1."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response

from evenbeat.api.v1.wire import ExecutionsOut, JobIn, JobOut
from evenbeat.core.access import Role
from evenbeat.web.auth import needs
from evenbeat.web.conditional import tagged
from evenbeat.web.once import Once
from evenbeat.web.probes import App

PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"description": "the body is not JSON"},
    401: {"description": "no token, or not a good one"},
    403: {"description": "the role does not allow this"},
    404: {"description": "no such job"},
    409: {"description": "not in this state, or the name is taken"},
    413: {"description": "the body is too large"},
    422: {"description": "a field cannot be accepted; `errors` names it"},
    503: {"description": "the database does not answer"},
}

router = APIRouter(prefix="/api/v1", tags=["jobs"], responses=PROBLEMS, route_class=Once)


@router.post("/jobs", status_code=201, dependencies=[needs(Role.OPERATOR)])
async def create_job(body: JobIn, app: App, response: Response) -> JobOut:
    """Create a job: once and now, or on a schedule."""
    job = await app.jobs.add(body.to_core())
    response.headers["Location"] = f"/api/v1/jobs/{job.uid}"
    return tagged(response, job.version, JobOut.from_core(job))


@router.get("/jobs/{job_id}", dependencies=[needs(Role.VIEWER)])
async def get_job(job_id: UUID, app: App, response: Response) -> JobOut:
    """A job as it is now."""
    job = await app.jobs.get(job_id)
    return tagged(response, job.version, JobOut.from_core(job))


@router.get("/jobs/{job_id}/executions", dependencies=[needs(Role.VIEWER)])
async def list_executions(
    job_id: UUID,
    app: App,
    limit: Annotated[int, Query(ge=1, le=250)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> ExecutionsOut:
    """The runs of a job, newest first, the one in hand included."""
    page = await app.runs.of_job(job_id, limit=limit, offset=offset)
    return ExecutionsOut.from_core(page, limit=limit, offset=offset)
