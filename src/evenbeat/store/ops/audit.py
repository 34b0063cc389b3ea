"""The audit: written in the transaction of each change, read newest first."""

from collections.abc import Sequence

import asyncpg

from evenbeat.core.ops.audit import Actor, AuditEntry, NewAuditEntry
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("ops/audit")


async def write_audit(session: Session, entries: Sequence[NewAuditEntry], *, by: Actor) -> None:
    """Call it in the transaction of the change: both are committed, or neither."""
    await session.execute(
        SQL["write"],
        actor=by.name,
        request_id=by.request_id,
        actions=[entry.action for entry in entries],
        job_ids=[entry.job_id for entry in entries],
        job_uids=[entry.job_uid for entry in entries],
        job_names=[entry.job_name for entry in entries],
        before=[entry.before for entry in entries],
        after=[entry.after for entry in entries],
    )


async def list_audit_entries(
    session: Session,
    *,
    job_id: int | None,
    actor: str | None,
    older_than: int | None,
    limit: int,
) -> list[AuditEntry]:
    rows = await session.fetch(
        SQL["page"], job_id=job_id, actor=actor, older_than=older_than, limit=limit
    )
    return [entry_from(row) for row in rows]


def entry_from(row: asyncpg.Record) -> AuditEntry:
    return AuditEntry(
        id=row["id"],
        at=row["at"],
        actor=Actor(row["actor"], row["request_id"]),
        action=row["action"],
        job_uid=row["job_uid"],
        job_name=row["job_name"],
        before=row["before"],
        after=row["after"],
    )
