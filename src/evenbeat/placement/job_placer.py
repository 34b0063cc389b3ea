"""Places jobs right after they were stored, so that the answer shows the beats they got."""

from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

from evenbeat.core.errors import NotFound, StoreUnavailable
from evenbeat.core.jobs.model import Job
from evenbeat.observe import failpoint, log
from evenbeat.placement.placement_updates import PlacedJob
from evenbeat.placement.placer import Placer
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs


class JobPlacer:
    """Places jobs that are on disk. If it cannot, a node does so within a second or two."""

    def __init__(self, database: Database, placement: Placer | None) -> None:
        self._database = database
        self._placement = placement

    async def place(self, uids: Collection[UUID]) -> dict[UUID, PlacedJob]:
        if self._placement is None or not uids:
            return {}
        failpoint.reach("before_placement")
        try:
            return await self._placement.place(uids)
        except StoreUnavailable as error:
            # The jobs are stored. An error would make the caller add them again.
            log.loop_failed("placement", error)
            return {}

    async def place_new_job(self, job: Job) -> Job:
        """The job with its place, if it is new and recurs."""
        if not job.is_new or not job.definition.timetable.schedule.is_recurring:
            return job
        placed = (await self.place([job.uid])).get(job.uid)
        if placed is None:
            return await self._read_again(job)
        definition = replace(job.definition, timetable=placed.timetable)
        pulse = replace(job.pulse, next_beat_at=placed.next_beat_at, due_at=placed.next_beat_at)
        return replace(job, definition=definition, pulse=pulse)

    async def _read_again(self, job: Job) -> Job:
        """The job as it is by now: a node may have placed it before us."""
        is_placing = self._placement is not None and self._placement.is_placing
        if not is_placing or not job.definition.timetable.is_free:
            return job
        try:
            found = await jobs.find_job(self._database, job.uid)
            return replace(found, is_new=True, warnings=job.warnings)
        except (StoreUnavailable, NotFound):
            # The job was added, even if it cannot be read again.
            return job
