"""Placing jobs right after they were written, so that the answer already shows where they went."""

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
    """Places what is on disk already: if it cannot, a node does so within a second or two."""

    def __init__(self, database: Database, placement: Placer | None) -> None:
        self._database = database
        self._placement = placement

    async def of(self, uids: Collection[UUID]) -> dict[UUID, PlacedJob]:
        if self._placement is None or not uids:
            return {}
        failpoint.reach("before_placement")
        try:
            return await self._placement.place(uids)
        except StoreUnavailable as error:
            # What was asked for is done, and saying otherwise would have it done twice.
            log.loop_failed("placement", error)
            return {}

    async def of_new(self, job: Job) -> Job:
        """The job with its place, if it was just made and recurs."""
        if not job.is_new or not job.definition.timetable.schedule.is_recurring:
            return job
        placed = (await self.of([job.uid])).get(job.uid)
        if placed is None:
            return await self._found(job)
        definition = replace(job.definition, timetable=placed.timetable)
        pulse = replace(job.pulse, next_beat_at=placed.next_beat_at, due_at=placed.next_beat_at)
        return replace(job, definition=definition, pulse=pulse)

    async def _found(self, job: Job) -> Job:
        """The job as it is by now: a node may have been quicker to place it."""
        is_placing = self._placement is not None and self._placement.is_placing
        if not is_placing or not job.definition.timetable.is_free:
            return job
        try:
            found = await jobs.find_job(self._database, job.uid)
            return replace(found, is_new=True, warnings=job.warnings)
        except (StoreUnavailable, NotFound):
            # It was added, whatever has become of it since.
            return job
