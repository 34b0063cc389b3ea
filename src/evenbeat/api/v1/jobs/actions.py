"""The routes of actions on jobs: on one, or on all that match."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Response

from evenbeat.api.v1.jobs.wire.actions import JobActionIn, JobActionOut, RestoreIn, VersionsOut
from evenbeat.api.v1.jobs.wire.job_out import ExplanationOut, JobOut
from evenbeat.app import Evenbeat
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Job
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import Caller, needs
from evenbeat.web.etags import set_etag
from evenbeat.web.idempotency import IdempotentRoute
from evenbeat.web.probes import App

VIEWER, OPERATOR = [needs(Role.VIEWER)], [needs(Role.OPERATOR)]
STATE: dict[int | str, dict[str, Any]] = {
    409: {"description": "its state does not allow this; `allowed_actions` says what it allows"}
}

router = APIRouter(
    prefix="/api/v1/jobs", tags=["actions"], route_class=IdempotentRoute, responses=STATE
)


async def answer_job(job: Job, app: Evenbeat, response: Response) -> JobOut:
    return set_etag(response, job.version, JobOut.from_core(job, await app.now()))


@router.post("/actions", dependencies=OPERATOR)
async def act_on_many(body: JobActionIn, app: App, caller: Caller) -> JobActionOut:
    """Do one action on all jobs that match: on all of them, or on none."""
    if body.action == Action.RELEASE:
        caller.check(Role.ADMIN)
    result = await app.jobs.act(
        Action(body.action),
        body.filter.to_core(),
        by=caller.actor,
        dry_run=body.dry_run,
        skip_refused=body.skip_refused,
    )
    return JobActionOut.from_core(result)


class JobActionRoute(NamedTuple):
    """An action on one job: the method that does it, its description, and the role it needs."""

    perform: Callable[..., Awaitable[Job]]
    description: str
    least_role: Role = Role.OPERATOR
    status: int = 200


JOB_ACTIONS = {
    "pause": JobActionRoute(
        Jobs.pause, "Keep the schedule, run nothing of it. A run in hand finishes first."
    ),
    "resume": JobActionRoute(Jobs.resume, "Take the schedule up again."),
    "cancel": JobActionRoute(Jobs.cancel, "End the job, and the run in hand with it."),
    "retry": JobActionRoute(
        Jobs.retry,
        "Run a job that failed, completed or was cancelled once more, its attempts counted anew.",
    ),
    "run": JobActionRoute(
        Jobs.run,
        "Run it once, now. Its schedule is not touched, and a paused job stays paused.",
        status=202,
    ),
    "enable": JobActionRoute(Jobs.enable, "Let a disabled job take part again."),
    "disable": JobActionRoute(
        Jobs.disable, "Take the job out until it is enabled. A run in hand finishes first."
    ),
    "release": JobActionRoute(
        Jobs.release,
        "Take a run from a node that is stuck. It begins again elsewhere and is not counted.",
        least_role=Role.ADMIN,
    ),
}


def add_route(name: str, action: JobActionRoute) -> None:
    """Add the route of one action: all routes differ only in the table above."""

    async def act(job_id: UUID, app: App, caller: Caller, response: Response) -> JobOut:
        return await answer_job(
            await action.perform(app.jobs, job_id, by=caller.actor), app, response
        )

    router.add_api_route(
        f"/{{job_id}}/{name}",
        act,
        methods=["POST"],
        name=f"{name}_job",
        description=action.description,
        status_code=action.status,
        dependencies=[needs(action.least_role)],
    )


for name, action in JOB_ACTIONS.items():
    add_route(name, action)


@router.get("/{job_id}/explain", dependencies=VIEWER)
async def explain_job(job_id: UUID, app: App) -> ExplanationOut:
    """Why the job is not running, when it will, or why it is late, in a sentence or two."""
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
    return await answer_job(job, app, response)
