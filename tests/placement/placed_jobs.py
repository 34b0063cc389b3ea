"""Jobs that are placed when they are added, and checks of the map of the load."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.jobs.model import Definition, Job
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.timetable import Timetable
from evenbeat.placement.placer import OFF, Placer
from evenbeat.store.database import clock
from tests.control.controlled_jobs import ControlledJobs
from tests.store.given import open_job_store

HOUR = timedelta(hours=1)
PARTS = ("second", "minute", "slot", "busy", "jobs", "pinned", "pinned_minute", "far")


def timed(schedule: str = "every 1h", **more: Any) -> Definition:
    """A job of this timetable, as an object of the API has it."""
    return Definition("echo", Timetable.from_object({"schedule": schedule} | more))


@dataclass(frozen=True)
class PlacedJobs(ControlledJobs):
    """Controlled jobs that `placement` places."""

    balancing: str = "on"
    placement: Placer = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "placement", Placer(self.database, self.balancing))

    @property
    def jobs(self) -> Jobs:
        return Jobs(self.database, Registry(), self.placement)

    async def make(self, schedule: str = "every 1h", **more: Any) -> Job:
        return await self.jobs.add(timed(schedule, **more))

    async def change(self, job: Job, **more: Any) -> Job:
        """Another timetable, and all else as it is."""
        written = (await self.find(job)).definition
        return await self.jobs.edit(job.uid, replace(written, timetable=timed(**more).timetable))

    async def now(self) -> datetime:
        return await clock.now(self.database)

    async def count(self) -> int:
        """How many jobs the map has; checked against what the jobs themselves say."""
        return (await self.true_ring()).job_count

    async def true_ring(self) -> LoadRing:
        """The ring as this process keeps it, which is that of a new process and of the jobs."""
        kept = await self.placement.ring()
        for other in (Placer(self.database), Placer(self.database, OFF)):
            assert_same(kept, await other.ring())
        return kept

    async def placed_at(self, job: Job) -> datetime | None:
        return await self.value(
            "select placed_at from evenbeat.placement where job_id = $1", job.id
        )


def assert_same(one: LoadRing, other: LoadRing) -> None:
    assert one.job_count == other.job_count
    for part in PARTS:
        assert np.array_equal(getattr(one, part), getattr(other, part)), part
    assert +one.rhythms == +other.rhythms


async def open_placed_jobs(database: Any, balancing: str = "on") -> PlacedJobs:
    job_store = await open_job_store(database)
    return PlacedJobs(job_store.database, job_store.lanes, job_store.node_id, balancing=balancing)


def phase_of(job: Job) -> timedelta | None:
    return job.definition.timetable.phase


def beat_of(job: Job) -> datetime:
    assert job.pulse.next_beat_at is not None
    return job.pulse.next_beat_at
