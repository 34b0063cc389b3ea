"""The routes of /api/v1/jobs: create, list, read, change, delete."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Query, Response

from evenbeat.api.v1.jobs.wire.job_in import BatchIn, JobIn
from evenbeat.api.v1.jobs.wire.job_out import BatchOut, JobDetailOut, JobOut, MessageOut
from evenbeat.api.v1.jobs.wire.listing import JobsOut, ListIn
from evenbeat.api.v1.jobs.wire.patch import apply_changes, find_changes, take_switch
from evenbeat.app import Evenbeat
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Job
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import Caller, needs
from evenbeat.web.etags import IfMatch, set_etag
from evenbeat.web.idempotency import IdempotentRoute
from evenbeat.web.probes import App

VIEWER, OPERATOR = [needs(Role.VIEWER)], [needs(Role.OPERATOR)]
TAKEN: dict[int | str, dict[str, Any]] = {409: {"description": "the name is taken"}}
EXISTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "a job with this dedupe key or name exists already"}
}
CHANGED: dict[int | str, dict[str, Any]] = {
    409: {"description": "changed meanwhile, the name is taken, or its state refuses the switch"},
    412: {"description": "not the version that If-Match names"},
}

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"], route_class=IdempotentRoute)


async def answer_created(job: Job, app: Evenbeat, response: Response) -> JobOut:
    """The job, with 201 if this request made it, else 200."""
    response.status_code = 201 if job.is_new else 200
    response.headers["Location"] = f"/api/v1/jobs/{job.uid}"
    return set_etag(response, job.version, JobOut.from_core(job, await app.now()))


async def answer_detail(job: Job, app: Evenbeat, now: datetime) -> JobDetailOut:
    return JobDetailOut.from_parts(job, await app.statistics.health_of(job.id), now)


@router.post("", status_code=201, dependencies=OPERATOR, responses=TAKEN | EXISTS)
async def create_job(body: JobIn, app: App, caller: Caller, response: Response) -> JobOut:
    """Create a job: once and now, or on a schedule."""
    job = await app.jobs.add(body.to_core(), dedupe_key=body.dedupe_key, by=caller.actor)
    return await answer_created(job, app, response)


@router.post("/batch", status_code=201, dependencies=OPERATOR, responses=TAKEN)
async def create_jobs(body: BatchIn, app: App, caller: Caller) -> BatchOut:
    """Create many jobs at once: all of them, or none."""
    batch = await app.jobs.add_many(body.to_core(), by=caller.actor)
    return BatchOut.from_core(batch)


@router.get("", dependencies=VIEWER)
async def list_jobs(app: App, query: Annotated[ListIn, Query()]) -> JobsOut:
    """Jobs that match, a page at a time."""
    order = query.order()
    page = await app.listing.page(query.filter(), order=order, **query.place())
    return JobsOut.from_core(
        page, await app.now(), order=order, limit=query.limit, offset=query.offset
    )


@router.get("/status-counts", dependencies=VIEWER)
async def count_jobs(app: App) -> dict[str, int]:
    """How many jobs there are of each status."""
    return {status.value: count for status, count in (await app.listing.status_counts()).items()}


@router.put("/named/{name}", dependencies=OPERATOR, responses={201: {"description": "created"}})
async def put_job(name: str, body: JobIn, app: App, caller: Caller, response: Response) -> JobOut:
    """Create the job of this name, or give the one there is this definition; its phase is kept."""
    job = await app.jobs.put(body.named(name).to_core(), by=caller.actor)
    return await answer_created(job, app, response)


@router.get("/{job_id}", dependencies=VIEWER)
async def get_job(job_id: UUID, app: App, response: Response) -> JobDetailOut:
    """A job as it is now, with its next beats and its health."""
    job = await app.jobs.get(job_id)
    return set_etag(response, job.version, await answer_detail(job, app, await app.now()))


@router.put("/{job_id}", dependencies=OPERATOR, responses=CHANGED)
@router.patch("/{job_id}", dependencies=OPERATOR, responses=CHANGED)
async def change_job(
    job_id: UUID,
    body: Annotated[dict[str, Any], Body(examples=[{"max_retries": 5}])],
    app: App,
    caller: Caller,
    wanted: IfMatch,
    response: Response,
) -> JobOut:
    """Change the fields that are sent and leave the rest; null restores the default.

    `schedule_enabled` enables or disables a recurring job in the same transaction.
    """
    job, now = await app.jobs.get(job_id), await app.now()
    wanted.check(job.version)
    changes = find_changes(body, await answer_detail(job, app, now))
    switch = take_switch(job, changes)
    if changes:
        to, version = apply_changes(job, changes, now), job.version
        job = await app.jobs.edit(job_id, to, version=version, switch=switch, by=caller.actor)
    elif switch is not None:
        act = app.jobs.enable if switch is Action.ENABLE else app.jobs.disable
        job = await act(job_id, by=caller.actor)
    return set_etag(response, job.version, JobOut.from_core(job, now))


@router.delete("/{job_id}", dependencies=OPERATOR)
async def delete_job(job_id: UUID, app: App, caller: Caller) -> MessageOut:
    """Stop the job and remove it. Its history stays readable, and its name is free."""
    await app.jobs.delete(job_id, by=caller.actor)
    return MessageOut(message="Job deleted successfully")
