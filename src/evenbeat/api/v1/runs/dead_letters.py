"""The routes of dead letters: list, acknowledge, requeue, discard."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from evenbeat.api.v1.runs.wire.dead_letter import (
    LetterActionIn,
    LetterActionOut,
    LetterDetailOut,
    LetterGroupsOut,
    LetterOut,
    LettersIn,
    LettersOut,
    RemarkIn,
    RequeueIn,
)
from evenbeat.core.ops.access import Role
from evenbeat.core.runs.dead_letters import letter_id
from evenbeat.web.auth import Caller, needs
from evenbeat.web.idempotency import IdempotentRoute
from evenbeat.web.probes import App

VIEWER, OPERATOR = [needs(Role.VIEWER)], [needs(Role.OPERATOR)]
STATE: dict[int | str, dict[str, Any]] = {
    409: {"description": "another caller was first, or its job does not allow this now"}
}

router = APIRouter(
    prefix="/api/v1/dead-letters", tags=["dead letters"], route_class=IdempotentRoute
)


@router.get("", dependencies=VIEWER)
async def list_dead_letters(app: App, query: Annotated[LettersIn, Query()]) -> LettersOut:
    """Beats that ran out of attempts; those not acknowledged come first."""
    page = await app.dead_letters.page(query.filter(), limit=query.limit, offset=query.offset)
    return LettersOut.from_core(page, limit=query.limit, offset=query.offset)


@router.get("/groups", dependencies=VIEWER)
async def group_dead_letters(app: App, query: Annotated[LettersIn, Query()]) -> LetterGroupsOut:
    """The same by error: errors that differ only in numbers, ids and names are one group."""
    page = await app.dead_letters.grouped(query.filter(), limit=query.limit, offset=query.offset)
    return LetterGroupsOut.from_core(page, limit=query.limit, offset=query.offset)


@router.post("/actions", dependencies=OPERATOR, responses=STATE)
async def act_on_dead_letters(body: LetterActionIn, app: App, caller: Caller) -> LetterActionOut:
    """Do one action on all letters that match: on all of them, or on none."""
    result = await app.dead_letters.act(
        body.action,
        body.filter.to_core(),
        body.remark(),
        by=caller.actor,
        dry_run=body.dry_run,
        skip_refused=body.skip_refused,
    )
    return LetterActionOut.from_core(result)


@router.get("/{dead_letter_id}", dependencies=VIEWER)
async def get_dead_letter(dead_letter_id: UUID, app: App) -> LetterDetailOut:
    """A dead letter with the runs that failed."""
    letter = await app.dead_letters.get(letter_id(dead_letter_id))
    return LetterDetailOut.from_parts(letter, await app.dead_letters.runs(letter))


@router.post("/{dead_letter_id}/acknowledge", dependencies=OPERATOR, responses=STATE)
async def acknowledge_dead_letter(
    dead_letter_id: UUID, app: App, caller: Caller, body: RemarkIn | None = None
) -> LetterOut:
    """Say that you have seen it. A second caller is refused, and told who was first."""
    remark = (body or RemarkIn()).remark()
    key = letter_id(dead_letter_id)
    letter = await app.dead_letters.acknowledge(key, remark, by=caller.actor)
    return LetterOut.from_core(letter)


@router.post("/{dead_letter_id}/requeue", status_code=202, dependencies=OPERATOR, responses=STATE)
async def requeue_dead_letter(
    dead_letter_id: UUID, app: App, caller: Caller, body: RequeueIn | None = None
) -> LetterOut:
    """Run it again, now; `requeued_as` is the job that does: its own, or a new one."""
    given = body or RequeueIn.model_validate({})
    letter = await app.dead_letters.requeue(
        letter_id(dead_letter_id),
        given.remark(),
        payload=given.payload_or_original(),
        by=caller.actor,
    )
    return LetterOut.from_core(letter)


@router.post("/{dead_letter_id}/discard", dependencies=OPERATOR, responses=STATE)
async def discard_dead_letter(
    dead_letter_id: UUID, app: App, caller: Caller, body: RemarkIn | None = None
) -> LetterOut:
    """Do nothing more about it. It can be read for a while."""
    remark = (body or RemarkIn()).remark()
    letter = await app.dead_letters.discard(letter_id(dead_letter_id), remark, by=caller.actor)
    return LetterOut.from_core(letter)
