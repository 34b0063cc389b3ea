"""Statistics as people read them: of a job, of a kind or a group, of everything, and by day."""

from dataclasses import replace
from datetime import UTC
from uuid import UUID

from evenbeat.core.jobs.filters import Filter
from evenbeat.core.ops.statistics import (
    EVERYTHING,
    RECENT_RUNS,
    Day,
    Health,
    Overview,
    Scope,
    Statistics,
    assess,
    without_gaps,
)
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs, listing
from evenbeat.store.ops import nodes, statistics


class Counts:
    """What the jobs and runs of one database come to: of the whole cluster, whoever asks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_job(self, uid: UUID) -> Statistics:
        job = await jobs.by_uid(self._database, uid)
        total, unacknowledged = await statistics.dead_letters(self._database, Scope(job_id=job.id))
        counted = await statistics.of_job(self._database, job.id)
        return replace(counted, dead_letters=total, open_dead_letters=unacknowledged)

    async def health_of(self, job_id: int) -> Health:
        """Whether somebody should look after a job, by its newest runs."""
        newest = await statistics.newest_endings(self._database, job_id, limit=RECENT_RUNS)
        return assess(newest)

    async def of_all(self, scope: Scope = EVERYTHING) -> Overview:
        """Of everything, or of one kind or group."""
        total, unacknowledged = await statistics.dead_letters(self._database, scope)
        return Overview(
            jobs=await listing.status_counts(self._database, jobs_of(scope)),
            runs=await statistics.runs(self._database, scope),
            dead_letters=total,
            open_dead_letters=unacknowledged,
            live_nodes=await nodes.count_live(self._database),
            last_seen_at=await nodes.last_seen_at(self._database),
            at=await clock.now(self._database),
        )

    async def trend(self, count: int, scope: Scope = EVERYTHING) -> list[Day]:
        """What runs came to on each of the last days (UTC), today's last."""
        now = await clock.now(self._database)
        found = await statistics.days(self._database, scope, count=count)
        return without_gaps(found, now.astimezone(UTC).date(), count)

    async def trend_of_job(self, uid: UUID, count: int) -> list[Day]:
        """The same of a recurring job: days of one-off jobs are counted by kind and group."""
        job_id = await jobs.id_of(self._database, uid)
        return await self.trend(count, Scope(job_id=job_id))


def jobs_of(scope: Scope) -> Filter:
    return Filter(
        kinds=None if scope.kind is None else frozenset([scope.kind]),
        groups=None if scope.group is None else frozenset([scope.group]),
    )
