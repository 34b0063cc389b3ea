"""The routes of groups: which jobs are in them, and what they allow."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import AfterValidator

from evenbeat.api.v1.jobs.wire.group import GroupIn, GroupOut, GroupsOut, MembersOut
from evenbeat.api.v1.wire.text_types import Name
from evenbeat.core.limits import LARGEST_OFFSET, LARGEST_PAGE
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import Caller, needs
from evenbeat.web.idempotency import IdempotentRoute
from evenbeat.web.probes import App

VIEWER, OPERATOR = [needs(Role.VIEWER)], [needs(Role.OPERATOR)]


def check_utf8(key: str) -> str:
    """Refuse a key that was not UTF-8: the server has replaced its bytes, so it is another key."""
    if "\ufffd" in key:
        raise ValueError("is not UTF-8")
    return key


# A key may contain slashes.
Key = Annotated[Name, AfterValidator(check_utf8), Path()]
Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE)]
Offset = Annotated[int, Query(ge=0, le=LARGEST_OFFSET)]

router = APIRouter(prefix="/api/v1/groups", tags=["groups"], route_class=IdempotentRoute)


@router.get("", dependencies=VIEWER)
async def list_groups(
    app: App,
    search: Annotated[Name | None, Query(description="part of a key")] = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> GroupsOut:
    """All groups by key, with how many run and wait in each."""
    page = await app.groups.page(search=search, limit=limit, offset=offset)
    return GroupsOut.from_core(page, limit=limit, offset=offset)


@router.get("/{key:path}", dependencies=VIEWER)
async def get_group(key: Key, app: App, limit: Limit = 50, offset: Offset = 0) -> MembersOut:
    """A group, the jobs that run in it, and a page of those that wait for a place."""
    members = await app.groups.members(key, limit=limit, offset=offset)
    return MembersOut.from_core(members, limit=limit, offset=offset)


@router.put("/{key:path}", dependencies=OPERATOR, responses={201: {"description": "created"}})
async def put_group(
    key: Key, body: GroupIn, app: App, caller: Caller, response: Response
) -> GroupOut:
    """Make a group, or change what it allows; waiting jobs that fit now start at once."""
    group = await app.groups.put(body.to_core(key), by=caller.actor)
    response.status_code = 201 if group.is_new else 200
    return GroupOut.from_core(await app.groups.occupied(key))


@router.post("/{key:path}/pause", dependencies=OPERATOR)
async def pause_group(key: Key, app: App, caller: Caller) -> GroupOut:
    """Start nothing more in the group; what runs finishes."""
    await app.groups.pause(key, by=caller.actor)
    return GroupOut.from_core(await app.groups.occupied(key))


@router.post("/{key:path}/resume", dependencies=OPERATOR)
async def resume_group(key: Key, app: App, caller: Caller) -> GroupOut:
    """Let jobs of the group start again."""
    await app.groups.resume(key, by=caller.actor)
    return GroupOut.from_core(await app.groups.occupied(key))
