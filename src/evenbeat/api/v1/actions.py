"""The routes that do something to jobs: to one, or to all that match."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Response

from evenbeat.api.v1.wire.actions import BulkIn, BulkOut, RestoreIn, VersionsOut
from evenbeat.api.v1.wire.job_out import ExplanationOut, JobOut
from evenbeat.app import Evenbeat
from evenbeat.core.access import Role
from evenbeat.core.lifecycle import Action
from evenbeat.core.model import Job
from evenbeat.web.auth import Caller, needs
from evenbeat.web.conditional import tagged
from evenbeat.web.once import Once
from evenbeat.web.probes import App

VIEWER, OPERATOR, ADMIN = ([needs(role)] for role in Role)
STATE: dict[int | str, dict[str, Any]] = {
    409: {"description": "its state does not allow this; `allowed_actions` says what it allows"}
}

router = APIRouter(prefix="/api/v1/jobs", tags=["actions"], route_class=Once, responses=STATE)


async def shown(job: Job, app: Evenbeat, response: Response) -> JobOut:
    return tagged(response, job.version, JobOut.from_core(job, await app.now()))


@router.post("/actions", dependencies=OPERATOR)
async def act_on_many(body: BulkIn, app: App, caller: Caller) -> BulkOut:
    """Do the same to all jobs that match: to all of them, or to none."""
    if body.action == Action.RELEASE:
        caller.check(Role.ADMIN)
    tally = await app.jobs.act(
        Action(body.action),
        body.filter.to_core(),
        by=caller.actor,
        dry_run=body.dry_run,
        skip_refused=body.skip_refused,
    )
    return BulkOut.from_core(tally)


@router.post("/{job_id}/pause", dependencies=OPERATOR)
async def pause_job(job_id: UUID, app: App, caller: Caller, response: Response) -> JobOut:
    """Keep the schedule, run nothing of it. A run in hand finishes first."""
    return await shown(await app.jobs.pause(job_id, by=caller.actor), app, response)


@router.post("/{job_id}/resume", dependencies=OPERATOR)
async def resume_job(job_id: UUID, app: App, caller: Caller, response: Response) -> JobOut:
    """Take the schedule up again."""
    return await shown(await app.jobs.resume(job_id, by=caller.actor), app, response)


@router.post("/{job_id}/cancel", dependencies=OPERATOR)
async def cancel_job(job_id: UUID, app: App, caller: Caller, response: Response) -> JobOut:
    """End the job, and the run in hand with it."""
    return await shown(await app.jobs.cancel(job_id, by=caller.actor), app, response)


@router.post("/{job_id}/retry", dependencies=OPERATOR)
async def retry_job(job_id: UUID, app: App, caller: Caller, response: Response) -> JobOut:
    """Run a job that failed, completed or was cancelled once more, its attempts counted anew."""
    return await shown(await app.jobs.retry(job_id, by=caller.actor), app, response)


@router.post("/{job_id}/run", status_code=202, dependencies=OPERATOR)
async def run_job(job_id: UUID, app: App, caller: Caller, response: Response) -> JobOut:
    """Run it once, now. Its schedule is not touched, and a paused job stays paused."""
    return await shown(await app.jobs.run(job_id, by=caller.actor), app, response)


@router.post("/{job_id}/enable", dependencies=OPERATOR)
async def enable_job(job_id: UUID, app: App, caller: Caller, response: Response) -> JobOut:
    """Let a disabled job take part again."""
    return await shown(await app.jobs.enable(job_id, by=caller.actor), app, response)


@router.post("/{job_id}/disable", dependencies=OPERATOR)
async def disable_job(job_id: UUID, app: App, caller: Caller, response: Response) -> JobOut:
    """Take the job out until it is enabled. A run in hand finishes first."""
    return await shown(await app.jobs.disable(job_id, by=caller.actor), app, response)


@router.post("/{job_id}/release", dependencies=ADMIN)
async def release_job(job_id: UUID, app: App, caller: Caller, response: Response) -> JobOut:
    """Take a run from a node that is stuck. It begins again elsewhere and is not counted."""
    return await shown(await app.jobs.release(job_id, by=caller.actor), app, response)


@router.get("/{job_id}/explain", dependencies=VIEWER)
async def explain_job(job_id: UUID, app: App) -> ExplanationOut:
    """Why it is not running, when it will, or why it is late: in a sentence or two."""
    return ExplanationOut(explanation=await app.jobs.explain(job_id))


@router.get("/{job_id}/versions", dependencies=VIEWER)
async def list_versions(job_id: UUID, app: App) -> VersionsOut:
    """Every definition that the job has had, the one in force first."""
    return VersionsOut.from_core(await app.jobs.versions(job_id), await app.now())


@router.post("/{job_id}/restore", dependencies=OPERATOR)
async def restore_job(
    job_id: UUID, body: RestoreIn, app: App, caller: Caller, response: Response
) -> JobOut:
    """Give the job the definition it had in an earlier version."""
    job = await app.jobs.restore(job_id, body.version, by=caller.actor)
    return await shown(job, app, response)
