"""Jobs as people handle them: add, put and cancel them, look at one."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from evenbeat.control.admission import Admission, Batch
from evenbeat.control.preparation import Entry
from evenbeat.core import lifecycle
from evenbeat.core.model import Definition, Job
from evenbeat.core.registry import Registry
from evenbeat.store import clock, jobs
from evenbeat.store.database import Database


class Jobs:
    """The jobs of one database."""

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._admission = Admission(database, registry)

    async def add(
        self,
        definition: Definition,
        *,
        dedupe_key: str | None = None,
        connection: Any = None,
        by: str = "python",
    ) -> Job:
        """Plan and store a new job, and wake the nodes. What comes back is on disk.

        While a live job holds the `dedupe_key`, that job comes back instead: `is_new` tells. On a
        `connection` of asyncpg the job is part of the caller's transaction, and of its fate.
        """
        return await self._admission.add(definition, dedupe_key, connection, by)

    async def add_many(
        self, entries: Iterable[Entry], *, connection: Any = None, by: str = "python"
    ) -> Batch:
        """Up to 100,000 new jobs, all or none: definitions, or pairs of one and its dedupe key."""
        return await self._admission.add_many(entries, connection, by)

    async def put(self, definition: Definition, *, by: str = "python") -> Job:
        """The job of this name is to be so: made, changed, or left as it is; may be repeated.

        A schedule that stays the same keeps its rhythm and whatever beat it owes.
        """
        return await self._admission.put(definition, by)

    async def cancel(self, uid: UUID) -> Job:
        """Stop it for good. A run in hand is stopped wherever it runs, once its node hears."""
        job = await self.get(uid)
        has_next = job.pulse.next_beat_at is not None
        lifecycle.check(lifecycle.Action.CANCEL, job.pulse.state, has_next=has_next)
        if not await jobs.cancel(self._database, job.id):
            # It has moved on since we looked: what it allows now is done, or told.
            return await self.cancel(uid)
        await clock.wake(self._database)
        return await self.get(uid)

    async def get(self, uid: UUID) -> Job:
        return await jobs.by_uid(self._database, uid)

    async def close(self) -> None:
        """See to it that the nodes have heard of every job; before the database is closed."""
        await self._admission.close()
