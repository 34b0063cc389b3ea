"""Nodes, the audit and the maintenance switch, as clients see them."""

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from evenbeat.api.v1.wire.text_types import Storable
from evenbeat.control.ops.audit import AuditPage
from evenbeat.core.limits import LONGEST_REASON
from evenbeat.core.ops.audit import AuditEntry
from evenbeat.store.ops.maintenance import Maintenance
from evenbeat.store.ops.nodes import StoredNode


class NodeOut(BaseModel):
    """A process that runs jobs."""

    id: int
    name: str
    status: str
    kinds: list[str]
    labels: list[str]
    running: int
    joined_at: datetime
    alive_until: datetime
    draining_since: datetime | None
    dead_since: datetime | None

    @classmethod
    def from_core(cls, node: StoredNode) -> Self:
        return cls(
            id=node.id,
            name=node.name,
            status=node.status,
            kinds=list(node.kinds),
            labels=list(node.labels),
            running=node.running,
            joined_at=node.joined_at,
            alive_until=node.alive_until,
            draining_since=node.draining_at,
            dead_since=node.dead_at,
        )


class NodesOut(BaseModel):
    """The live nodes, and the last that died."""

    nodes: list[NodeOut]

    @classmethod
    def from_core(cls, nodes: list[StoredNode]) -> Self:
        return cls(nodes=[NodeOut.from_core(node) for node in nodes])


class AuditEntryOut(BaseModel):
    """Who did what; `before` and `after` have only the fields that differ."""

    id: int
    at: datetime
    actor: str
    request_id: str | None
    action: str
    job_id: UUID | None
    job_name: str | None
    before: dict[str, Any]
    after: dict[str, Any]

    @classmethod
    def from_core(cls, entry: AuditEntry) -> Self:
        return cls(
            id=entry.id,
            at=entry.at,
            actor=entry.actor.name,
            request_id=entry.actor.request_id,
            action=entry.action,
            job_id=entry.job_uid,
            job_name=entry.job_name,
            before=entry.before,
            after=entry.after,
        )


class AuditOut(BaseModel):
    """A page of the audit, newest first."""

    entries: list[AuditEntryOut]
    next_cursor: str | None

    @classmethod
    def from_core(cls, page: AuditPage) -> Self:
        return cls(
            entries=[AuditEntryOut.from_core(entry) for entry in page.entries],
            next_cursor=None if page.older_than is None else str(page.older_than),
        )


class MaintenanceIn(BaseModel):
    """Why nothing may start."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"reason": "moving the database"}]}
    )

    reason: Annotated[Storable, Field(min_length=1, max_length=LONGEST_REASON, strict=True)]


class MaintenanceOut(BaseModel):
    """Whether maintenance is on: while it is, nothing starts."""

    is_on: bool
    since: datetime | None = None
    reason: str | None = None
    actor: str | None = None

    @classmethod
    def from_core(cls, status: Maintenance | None) -> Self:
        if status is None:
            return cls(is_on=False)
        return cls(is_on=True, since=status.since, reason=status.reason, actor=status.actor)
