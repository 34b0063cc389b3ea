"""Statistics of a job, of a kind or a group, of everything, and by day."""

from dataclasses import replace
from datetime import UTC
from uuid import UUID

from evenbeat.core.jobs.filters import Filter
from evenbeat.core.ops.statistics import (
    EVERY_JOB,
    RECENT_RUNS,
    DayStatistics,
    Health,
    JobStatistics,
    Overview,
    StatisticsScope,
    assess_health,
    fill_missing_days,
)
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs, listing
from evenbeat.store.ops import nodes, statistics


class StatisticsQueries:
    """Statistics of one database: of the whole cluster, whichever process asks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_job(self, uid: UUID) -> JobStatistics:
        job = await jobs.find_job(self._database, uid)
        total, unacknowledged = await statistics.count_dead_letters(
            self._database, StatisticsScope(job_id=job.id)
        )
        counted = await statistics.read_job_statistics(self._database, job.id)
        return replace(counted, dead_letters=total, open_dead_letters=unacknowledged)

    async def health_of(self, job_id: int) -> Health:
        """Whether a job needs attention, by its newest runs."""
        newest = await statistics.list_newest_endings(self._database, job_id, limit=RECENT_RUNS)
        return assess_health(newest)

    async def of_all(self, scope: StatisticsScope = EVERY_JOB) -> Overview:
        """The figures of all jobs, or of one kind or group."""
        total, unacknowledged = await statistics.count_dead_letters(self._database, scope)
        return Overview(
            jobs=await listing.count_by_status(self._database, jobs_of(scope)),
            runs=await statistics.read_run_counts(self._database, scope),
            dead_letters=total,
            open_dead_letters=unacknowledged,
            live_nodes=await nodes.count_live_nodes(self._database),
            last_seen_at=await nodes.find_last_seen(self._database),
            at=await clock.now(self._database),
        )

    async def trend(self, count: int, scope: StatisticsScope = EVERY_JOB) -> list[DayStatistics]:
        """The figures of each of the last `count` days (UTC); today is the last."""
        now = await clock.now(self._database)
        found = await statistics.list_days(self._database, scope, count=count)
        return fill_missing_days(found, now.astimezone(UTC).date(), count)

    async def trend_of_job(self, uid: UUID, count: int) -> list[DayStatistics]:
        """The same of a recurring job. Jobs that run once are only counted by kind and group."""
        job_id = await jobs.find_job_id(self._database, uid)
        return await self.trend(count, StatisticsScope(job_id=job_id))


def jobs_of(scope: StatisticsScope) -> Filter:
    return Filter(
        kinds=None if scope.kind is None else frozenset([scope.kind]),
        groups=None if scope.group is None else frozenset([scope.group]),
    )
