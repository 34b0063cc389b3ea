"""Jobs, nodes and raw rows for the tests of the store."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evenbeat.core.ids import new_job_uid
from evenbeat.core.model import Claimed, Definition, Job, Policy, State
from evenbeat.core.outcome import Done, Failed, Outcome
from evenbeat.core.schedules import parse
from evenbeat.core.settle import settle
from evenbeat.core.timetable import Timetable
from evenbeat.store import clock, jobs, leases, nodes
from evenbeat.store.database import Database
from evenbeat.store.leases import Broken, Settled

LEASE = timedelta(minutes=5)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
DONE = Done(result={"pages": 3}, items_crawled=5, items_indexed=4)
FAILED = Failed("out of order", error_type="Boom", stack_trace="Traceback: Boom")


def definition(schedule: str = "every 1h", kind: str = "echo", **more: Any) -> Definition:
    policy = Policy(**more.pop("policy", {}))
    return Definition(kind, Timetable(parse(schedule)), policy=policy, **more)


@dataclass(frozen=True)
class Shop:
    """A database with one node that serves `echo` and `crawl`."""

    database: Database
    kinds: dict[str, int]
    node_id: int

    async def add(self, written: Definition | None = None, due_at: datetime | None = None) -> Job:
        """A job that is due, unless told when."""
        now = await clock.now(self.database)
        given = written or definition()
        planned = Definition(
            given.kind,
            given.timetable.planned_at(due_at or now),
            payload=given.payload,
            name=given.name,
            policy=given.policy,
            priority=given.priority,
            labels=given.labels,
        )
        uid, is_recurring = new_job_uid(now), given.timetable.schedule.is_recurring
        state = State.SCHEDULED if is_recurring else State.PENDING
        await jobs.insert(self.database, planned, uid=uid, state=state, first_beat=due_at or now)
        return await jobs.by_uid(self.database, uid)

    async def claim(self, places: int = 10, *, kind: str = "echo") -> list[Claimed]:
        held = await leases.claim_due(
            self.database,
            self.node_id,
            token=secrets.randbits(62),
            places={self.kinds[kind]: places},
        )
        return [each for each in held if not isinstance(each, Broken)]

    async def claim_one(self) -> Claimed:
        [claimed] = await self.claim(1)
        return claimed

    async def end(self, *claimed: Claimed, outcome: Outcome = DONE) -> set[int]:
        now = await clock.now(self.database)
        return await leases.complete(
            self.database,
            [Settled(each, settle(each, outcome, now), timedelta(seconds=2)) for each in claimed],
        )

    async def look(self, job: Job) -> Job:
        return await jobs.by_uid(self.database, job.uid)

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        async with self.database.connection() as connection:
            return await connection.fetch(query, *values)

    async def value(self, query: str, *values: Any) -> Any:
        [[value]] = await self.fetch(query, *values)
        return value

    async def runs(self, job: Job) -> list[Any]:
        query = "select * from evenbeat.run_all where job_id = $1 order by number"
        return await self.fetch(query, job.id)


async def open_shop(database: Database) -> Shop:
    kinds = await nodes.register_kinds(database, ["crawl", "echo"])
    node_id = await nodes.join(database, "a:1", kinds=["crawl", "echo"], lease_duration=LEASE)
    return Shop(database, kinds, node_id)
