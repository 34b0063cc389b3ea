"""Statistics as people read them: of a job, and of everything."""

from uuid import UUID

from evenbeat.core.statistics import RECENT_RUNS, Health, Overview, Statistics, assess
from evenbeat.store import clock, jobs, listing, nodes, statistics
from evenbeat.store.database import Database


class Counts:
    """What the jobs and runs of one database come to: of the whole cluster, whoever asks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_job(self, uid: UUID) -> Statistics:
        job = await jobs.by_uid(self._database, uid)
        return await statistics.of_job(self._database, job.id)

    async def health_of(self, job_id: int) -> Health:
        """Whether somebody should look after a job, by its newest runs."""
        newest = await statistics.newest_endings(self._database, job_id, limit=RECENT_RUNS)
        return assess(newest)

    async def of_all(self) -> Overview:
        total, unacknowledged = await statistics.dead_letters(self._database)
        return Overview(
            jobs=await listing.status_counts(self._database),
            runs=await statistics.runs(self._database),
            dead_letters=total,
            open_dead_letters=unacknowledged,
            live_nodes=await nodes.count_live(self._database),
            last_seen_at=await nodes.last_seen_at(self._database),
            at=await clock.now(self._database),
        )
