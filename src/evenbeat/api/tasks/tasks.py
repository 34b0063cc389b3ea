"""The routes of /tasks: create, read, list, attempts, cancel."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from evenbeat.api.tasks.refusals import FastTaskRoute, TaskRoute
from evenbeat.api.tasks.wire import (
    FORMS,
    STATES,
    STATUSES,
    AttemptOut,
    PayloadForm,
    TaskIn,
    TaskOut,
    TaskStatus,
    attempt_fields,
    encode_json,
    read_form,
    read_task,
    task_fields,
)
from evenbeat.app import Evenbeat
from evenbeat.core.errors import Conflict
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.limits import LARGEST_OFFSET, LARGEST_TASK_PAGE
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import Caller, identify_caller, needs
from evenbeat.web.json_bodies import read_object
from evenbeat.web.probes import App

VIEWER, OPERATOR = [needs(Role.VIEWER)], [needs(Role.OPERATOR)]
HOW_SHOWN = "how payloads are shown: as they are, or as text"
EXAMPLE = {
    "type": "echo",
    "payload": {"message": "hello"},
    "runAt": "2100-02-20T10:20:00+09:00",
    "maxAttempts": 3,
}
CREATE: dict[str, Any] = {
    "parameters": [
        {
            "name": "payload",
            "in": "query",
            "required": False,
            "description": HOW_SHOWN,
            "schema": {"type": "string", "enum": list(FORMS), "default": "json"},
        }
    ],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": TaskIn.model_json_schema(), "example": EXAMPLE}},
    },
}
NOT_PENDING: dict[int | str, dict[str, Any]] = {409: {"description": "it is not PENDING"}}

Id = Annotated[UUID, Path(alias="id")]
Form = Annotated[PayloadForm, Query(alias="payload", description=HOW_SHOWN)]

router = APIRouter(prefix="/tasks", tags=["tasks"], route_class=TaskRoute)


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encode_json(body), status, headers, "application/json")


def answer_page(body: list[Any], total: int) -> Response:
    return answer(body, headers={"X-Total-Count": str(total)})


async def create_task(request: Request) -> Response:
    """Create a task: run once, not before `runAt`."""
    app: Evenbeat = request.app.state.evenbeat
    form = read_form(request.query_params.get("payload", "json"))
    task = read_task(await read_object(request), await app.now())
    job = await app.jobs.add(task.definition, by=(await identify_caller(request)).actor)
    return answer(task_fields(job, form, task.run_at), 201, {"Location": f"/tasks/{job.uid}"})


router.add_api_route(
    "",
    create_task,
    methods=["POST"],
    status_code=201,
    dependencies=OPERATOR,
    responses={201: {"model": TaskOut}},
    openapi_extra=CREATE,
    route_class_override=FastTaskRoute,
)


@router.get("", dependencies=VIEWER, responses={200: {"model": list[TaskOut]}})
async def list_tasks(
    app: App,
    status: TaskStatus | None = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST_TASK_PAGE)] = 20,
    offset: Annotated[int, Query(ge=0, le=LARGEST_OFFSET)] = 0,
    form: Form = "json",
) -> Response:
    """Tasks, the newest first; `X-Total-Count` says how many there are."""
    chosen = Filter(states=None if status is None else STATES[status])
    page = await app.listing.page(chosen, limit=limit, offset=offset)
    return answer_page([task_fields(job, form) for job in page.jobs], page.total)


@router.get("/{id}", dependencies=VIEWER, responses={200: {"model": TaskOut}})
async def get_task(task_id: Id, app: App, form: Form = "json") -> Response:
    """A task as it is now."""
    return answer(task_fields(await app.jobs.get(task_id), form))


@router.get("/{id}/runs", dependencies=VIEWER, responses={200: {"model": list[AttemptOut]}})
async def list_attempts(task_id: Id, app: App) -> Response:
    """The attempts at a task, the first one first; of a recurring job the last hundred."""
    page = await app.runs.of_job(
        task_id, limit=LARGEST_TASK_PAGE, with_skipped=False, with_returned=False
    )
    return answer_page([attempt_fields(run) for run in reversed(page.runs)], page.total)


@router.post("/{id}/cancel", status_code=204, dependencies=OPERATOR, responses=NOT_PENDING)
async def cancel_task(task_id: Id, app: App, caller: Caller) -> None:
    """Cancel a task that has not begun, or waits to be tried again."""
    # The filter is checked under the lock of the job: one that has begun meanwhile is not stopped.
    chosen = Filter(uids=frozenset([task_id]), states=STATES[TaskStatus.PENDING])
    if not (await app.jobs.act(Action.CANCEL, chosen, by=caller.actor)).changed:
        status = STATUSES[(await app.jobs.get(task_id)).pulse.state]
        raise Conflict(f"Task is not cancelable in status: {status}")
