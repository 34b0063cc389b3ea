"""Jobs are placed where the load is least, as soon as they are written."""

from evenbeat.control.jobs import Jobs
from evenbeat.core.model import Definition
from evenbeat.core.registry import Registry
from evenbeat.core.timetable import Timetable
from evenbeat.placement.placement import Placement
from evenbeat.store import nodes
from evenbeat.store.database import Database

HOURLY = Definition("echo", Timetable.from_object({"schedule": "every 1h"}))


async def test_a_job_that_is_added_comes_back_with_its_place(database: Database) -> None:
    await nodes.open_lanes(database, ["echo"])
    jobs = Jobs(database, Registry(), Placement(database))
    for _ in range(4):
        job = await jobs.add(HOURLY)
        assert await jobs.get(job.uid) == job
