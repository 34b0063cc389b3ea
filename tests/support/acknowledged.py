"""Records what Evenbeat has acknowledged, outside of its database, to check it afterwards."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.jobs.model import Definition
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Database
from tests.support.processes import Process

ENDED = re.compile(r"Job completed successfully.*?execution_number=(\d+).*?job_id=(\S+)")
STATES = """
select job.uid, pulse.state, (
    select count(*) from evenbeat.run where run.job_id = job.id and run.state = 'c'
) as completed
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
"""
RUNS = """
select job.uid::text as uid, run.number
from evenbeat.run
join evenbeat.job on job.id = run.job_id
where run.state = 'c'
"""


class Client:
    """Adds jobs one after the other, as an API does, and records which were acknowledged."""

    def __init__(self, database: Database, *, seconds: float = 0.01) -> None:
        self._database = database
        self._definition = Definition(
            "effect", Timetable(parse_schedule("now")), {"seconds": seconds}
        )
        self.acknowledged: list[UUID] = []
        self.refused: list[str] = []

    async def add_until(self, stopping: asyncio.Event, pause: float = 0.01) -> None:
        jobs = Jobs(self._database, Registry())
        while not stopping.is_set():
            try:
                self.acknowledged.append((await jobs.add(self._definition)).uid)
            except StoreUnavailable as error:
                self.refused.append(str(error))
            await asyncio.sleep(pause)

    async def missing(self, connection: Any) -> list[str]:
        """The acknowledged jobs that are not there, or have not been done just once."""
        found = {row["uid"]: row for row in await connection.fetch(STATES)}
        gone = [f"job {uid} is not there" for uid in self.acknowledged if uid not in found]
        return gone + [
            f"job {uid} is {found[uid]['state']}, completed {found[uid]['completed']} times"
            for uid in self.acknowledged
            if uid in found and (found[uid]["state"], found[uid]["completed"]) != (b"c", 1)
        ]


async def missing_runs(connection: Any, processes: Iterable[Process]) -> list[str]:
    """Runs that a node has logged as completed and that are not in the database."""
    written = {(row["uid"], row["number"]) for row in await connection.fetch(RUNS)}
    logged = {
        (uid, int(number)) for process in processes for number, uid in ENDED.findall(process.output)
    }
    assert logged, "no node logged a completed run"
    return [f"run {number} of {uid} is not there" for uid, number in sorted(logged - written)]
