"""History as people read it: the runs of a job."""

from dataclasses import dataclass
from uuid import UUID

from evenbeat.core.model import Run
from evenbeat.store import jobs, runs
from evenbeat.store.database import Database


@dataclass(frozen=True, slots=True)
class Page:
    """Some runs of a job, newest first, and how many there are in all."""

    runs: list[Run]
    total: int


class History:
    """The runs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_job(self, uid: UUID, *, limit: int = 50, offset: int = 0) -> Page:
        """Of a deleted job too: its history stays."""
        job_id = await jobs.id_of(self._database, uid)
        return Page(
            await runs.page(self._database, job_id, uid, limit=limit, offset=offset),
            await runs.count(self._database, job_id),
        )
