"""Jobs, nodes and raw rows for the tests of the store."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from evenbeat.control.jobs.validation import resolved_group
from evenbeat.core.jobs.model import Claimed, Definition, Job, Policy, State, UnrunnableClaim
from evenbeat.core.jobs.planning import JobPlan
from evenbeat.core.runs.outcome import Done, Failed, Outcome
from evenbeat.core.runs.settle import SettledRun, settle
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.jobs import groups, job_inserts, jobs
from evenbeat.store.jobs.definitions import json_text
from evenbeat.store.jobs.job_inserts import NewJob, new_job_uid
from evenbeat.store.jobs.jobs import DefinitionCache
from evenbeat.store.ops import nodes
from evenbeat.store.runs import completions, leases
from evenbeat.store.runs.completions import WrittenRuns

LEASE = timedelta(minutes=5)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
DONE = Done(result={"pages": 3}, items_crawled=5, items_indexed=4)
FAILED = Failed("out of order", error_type="Boom", stack_trace="Traceback: Boom")


def definition(schedule: str = "every 1h", kind: str = "echo", **more: Any) -> Definition:
    policy = Policy(**more.pop("policy", {}))
    return Definition(kind, Timetable(parse_schedule(schedule)), policy=policy, **more)


@dataclass(frozen=True)
class JobStore:
    """A database with one node that serves `echo` and `crawl`, in lanes without labels."""

    database: Database
    lanes: dict[str, int]
    node_id: int
    definitions: DefinitionCache = field(default_factory=DefinitionCache)

    async def add(self, written: Definition | None = None, due_at: datetime | None = None) -> Job:
        """A job that is due, unless told when."""
        now = await clock.now(self.database)
        given = written or definition()
        group = resolved_group(given)
        found = await groups.ensure_group(self.database, group.key, group) if group else None
        planned = replace(given, timetable=given.timetable.planned_at(due_at or now), group=group)
        uid, is_recurring = new_job_uid(now), given.timetable.schedule.is_recurring
        state = State.SCHEDULED if is_recurring else State.PENDING
        await insert(
            self.database,
            planned,
            uid=uid,
            state=state,
            first_beat=due_at or now,
            group_id=found and found.id,
        )
        return await jobs.find_job(self.database, uid)

    async def claim(self, places: int = 10, *, kind: str = "echo") -> list[Claimed]:
        return await self.take(leases.claim_due, {self.lanes[kind]: places})

    async def claim_grouped(self, places: int = 10) -> list[Claimed]:
        """In the order of their turns; whoever does not fit is parked."""
        claimed = await self.take(leases.claim_grouped, {self.lanes["echo"]: places})
        return sorted(claimed, key=lambda each: each.id)

    async def take(self, claim: leases.ClaimFunction, places: Mapping[int, int]) -> list[Claimed]:
        held = await claim(
            self.database,
            self.node_id,
            token=secrets.randbits(62),
            places=places,
            definitions=self.definitions,
        )
        return [each for each in held if not isinstance(each, UnrunnableClaim)]

    async def claim_one(self) -> Claimed:
        [claimed] = await self.claim(1)
        return claimed

    async def end(self, *claimed: Claimed, outcome: Outcome = DONE) -> frozenset[int]:
        return (await self.write(*claimed, outcome=outcome)).run_ids

    async def write(self, *claimed: Claimed, outcome: Outcome = DONE) -> WrittenRuns:
        now = await clock.now(self.database)
        return await completions.complete_runs(
            self.database,
            [
                SettledRun(each, settle(each, outcome, now), timedelta(seconds=2))
                for each in claimed
            ],
        )

    async def find(self, job: Job) -> Job:
        return await jobs.find_job(self.database, job.uid)

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        async with self.database.connection() as connection:
            return await connection.fetch(query, *values)

    async def value(self, query: str, *values: Any) -> Any:
        [[value]] = await self.fetch(query, *values)
        return value

    async def runs(self, job: Job) -> list[Any]:
        query = "select * from evenbeat.run_all where job_id = $1 order by number"
        return await self.fetch(query, job.id)


async def insert(
    session: Session,
    written: Definition,
    *,
    uid: UUID,
    state: State,
    first_beat: datetime,
    group_id: int | None = None,
) -> bool:
    """Store this job as it is, whoever is asleep; False: its lane is not open."""
    group = written.group
    newborn = NewJob(
        uid,
        written,
        JobPlan(written.timetable, first_beat, state),
        json_text(written.payload),
        group,
    )
    ids = {group.key: group_id} if group and group_id is not None else {}
    return (await job_inserts.insert_jobs(session, [newborn], group_ids=ids)).count == 1


async def open_job_store(database: Database) -> JobStore:
    await nodes.open_lanes(database, ["crawl", "echo"])
    lanes = {lane.kind: lane.id for lane in await nodes.list_lanes(database)}
    return JobStore(database, lanes, await join(database, "a:1"))


async def join(database: Database, name: str, labels: Sequence[str] = ()) -> int:
    kinds = ["crawl", "echo"]
    return await nodes.join_node(database, name, kinds=kinds, labels=labels, lease_duration=LEASE)
