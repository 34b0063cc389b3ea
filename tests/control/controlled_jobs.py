"""Jobs in a database that a node claims and people act on."""

from dataclasses import dataclass, replace
from typing import Any

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.control.ops.audit import Audit
from evenbeat.control.ops.maintenance import MaintenanceSwitch
from evenbeat.control.ops.verify import verify
from evenbeat.control.runs.history import History
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Claimed, Definition, Job, Run
from evenbeat.core.ops.audit import Actor, AuditEntry
from evenbeat.core.runs.outcome import Outcome
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Database
from evenbeat.store.runs import leases
from tests.store.given import DONE, FAILED, JobStore, definition, open_job_store

ANN = Actor("ann", request_id="r-1")
ONE_PLACE = Group("site", max_running=1)


@dataclass(frozen=True)
class ControlledJobs(JobStore):
    """A job store, with short methods for what people do to jobs."""

    @property
    def jobs(self) -> Jobs:
        return Jobs(self.database, Registry())

    @property
    def maintenance(self) -> MaintenanceSwitch:
        return MaintenanceSwitch(self.database)

    async def edit(self, job: Job, **changes: Any) -> Job:
        """The job as it is, but for these fields; `schedule` is a text."""
        if "schedule" in changes:
            changes["timetable"] = Timetable(parse_schedule(changes.pop("schedule")))
        written = (await self.find(job)).definition
        return await self.jobs.edit(job.uid, replace(written, **changes), by=ANN)

    async def start(self, job: Job) -> Claimed:
        """Claim until this job is in hand."""
        found = await self.take_all()
        return next(each for each in found if each.id == job.id)

    async def take_all(self) -> list[Claimed]:
        places = dict.fromkeys(self.lanes.values(), 10)
        alone = await self.take(leases.claim_due, places)
        return [*alone, *await self.take(leases.claim_grouped, places)]

    async def finish(self, job: Job, outcome: Outcome = DONE) -> None:
        claimed = await self.start(job)
        assert await self.end(claimed, outcome=outcome) == {claimed.run.id}

    async def fail(self, job: Job) -> None:
        await self.finish(job, FAILED)

    async def history(self, job: Job) -> list[Run]:
        """Oldest first."""
        return (await History(self.database).of_job(job.uid)).runs[::-1]

    async def audit(self, **chosen: Any) -> list[AuditEntry]:
        return (await Audit(self.database).page(**chosen)).entries

    async def breaches(self) -> list[str]:
        return [str(breach) for breach in await verify(self.database)]


async def open_controlled_jobs(database: Database) -> ControlledJobs:
    job_store = await open_job_store(database)
    return ControlledJobs(job_store.database, job_store.lanes, job_store.node_id)


def due(schedule: str = "every 1h", **more: Any) -> Definition:
    return definition(schedule, **more)
