"""The audit: who did what, newest first."""

from dataclasses import dataclass
from uuid import UUID

from evenbeat.core.ops.audit import AuditEntry
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs
from evenbeat.store.ops import audit


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some entries, newest first; `older_than` asks for the next page, None is the last one."""

    entries: list[AuditEntry]
    older_than: int | None


class Audit:
    """What people did, in one database. Nothing in it is ever changed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        *,
        job: UUID | None = None,
        actor: str | None = None,
        older_than: int | None = None,
        limit: int = 50,
    ) -> AuditPage:
        """Entries about one job, deleted or not, or of one actor, or all of them."""
        job_id = None if job is None else await jobs.find_job_id(self._database, job)
        entries = await audit.list_audit_entries(
            self._database, job_id=job_id, actor=actor, older_than=older_than, limit=limit + 1
        )
        shown = entries[:limit]
        return AuditPage(shown, shown[-1].id if len(entries) > limit else None)
