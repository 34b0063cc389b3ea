"""The routes of nodes, the audit, and the maintenance switch."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query

from evenbeat.api.v1.ops.wire.operations import (
    AuditOut,
    MaintenanceIn,
    MaintenanceOut,
    NodeOut,
    NodesOut,
)
from evenbeat.api.v1.wire.text_types import Storable
from evenbeat.core.limits import LARGEST_PAGE, LONGEST_ACTOR
from evenbeat.core.ops.access import Role
from evenbeat.web.auth import Caller, needs
from evenbeat.web.probes import App

VIEWER, OPERATOR, ADMIN = ([needs(role)] for role in Role)
NodeId = Annotated[int, Path(ge=1, le=2**31 - 1)]

router = APIRouter(prefix="/api/v1", tags=["operations"])


@router.get("/nodes", dependencies=VIEWER)
async def list_nodes(app: App) -> NodesOut:
    """The live nodes, and those that died lately."""
    return NodesOut.from_core(await app.nodes.all())


@router.post("/nodes/{node_id}/drain", dependencies=ADMIN)
async def drain_node(node_id: NodeId, app: App, caller: Caller) -> NodeOut:
    """Let a node finish its runs and claim no more."""
    return NodeOut.from_core(await app.nodes.drain(node_id, by=caller.actor))


@router.post("/nodes/{node_id}/undrain", dependencies=ADMIN)
async def undrain_node(node_id: NodeId, app: App, caller: Caller) -> NodeOut:
    """Let a drained node claim jobs again."""
    return NodeOut.from_core(await app.nodes.undrain(node_id, by=caller.actor))


@router.get("/audit", dependencies=ADMIN, responses={404: {"description": "no such job"}})
async def list_audit(
    app: App,
    job_id: UUID | None = None,
    actor: Annotated[Storable | None, Query(max_length=LONGEST_ACTOR)] = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 50,
    cursor: Annotated[str | None, Query(max_length=18, pattern="^[0-9]+$")] = None,
) -> AuditOut:
    """Who changed what, newest first."""
    older_than = int(cursor) if cursor else None
    page = await app.audit.page(job=job_id, actor=actor, limit=limit, older_than=older_than)
    return AuditOut.from_core(page)


@router.get("/maintenance", dependencies=VIEWER)
async def get_maintenance(app: App) -> MaintenanceOut:
    """Whether everything is paused, since when, by whom and why."""
    return MaintenanceOut.from_core(await app.maintenance.status())


@router.put("/maintenance", dependencies=ADMIN)
async def begin_maintenance(body: MaintenanceIn, app: App, caller: Caller) -> MaintenanceOut:
    """Start nothing on any node; what runs finishes."""
    return MaintenanceOut.from_core(await app.maintenance.on(body.reason, by=caller.actor))


@router.delete("/maintenance", dependencies=ADMIN)
async def end_maintenance(app: App, caller: Caller) -> MaintenanceOut:
    """Let runs start again."""
    await app.maintenance.off(by=caller.actor)
    return MaintenanceOut.from_core(None)
