"""The audit: written along with what it tells of, read newest first."""

from collections.abc import Sequence

import asyncpg

from evenbeat.core.ops.audit import Actor, AuditEntry, NewAuditEntry
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("ops/audit")


async def write_audit(session: Session, notes: Sequence[NewAuditEntry], *, by: Actor) -> None:
    """In the transaction of the change: both are there, or neither is."""
    await session.execute(
        SQL["write"],
        actor=by.name,
        request_id=by.request_id,
        actions=[note.action for note in notes],
        job_ids=[note.job_id for note in notes],
        job_uids=[note.job_uid for note in notes],
        job_names=[note.job_name for note in notes],
        before=[note.before for note in notes],
        after=[note.after for note in notes],
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
