"""Nodes in this process, handlers made for one test, and what must hold after every test."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from evenbeat.config import Settings
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.jobs.model import Definition, Job, Policy, Run, RunState
from evenbeat.core.runs.handler import Handler, RunContext
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.engine import node
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs
from evenbeat.store.ops import nodes
from evenbeat.store.runs import runs
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Does:
    """A handler that calls the function of the test, or returns the value of the test."""

    action: Any
    kind: str = "work"

    def check(self, payload: Any) -> None:
        """Any payload will do."""

    async def run(self, context: RunContext) -> Any:
        given = self.action(context) if callable(self.action) else self.action
        return await given if isinstance(given, Awaitable) else given


@dataclass(frozen=True)
class DoesWithoutAwait:
    """The same, with a `run` that is a plain function."""

    action: Any
    kind: str = "work"

    def check(self, payload: Any) -> None:
        """Any payload will do."""

    def run(self, context: RunContext) -> Any:
        return self.action(context) if callable(self.action) else self.action


class Gate:
    """A function for a handler: it waits until the test opens the gate."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.reached = asyncio.Event()
        self.tidied: list[int] = []

    async def __call__(self, context: RunContext) -> Done:
        self.reached.set()
        try:
            await self.open.wait()
        finally:
            self.tidied.append(context.number)
        return Done(result="let through")


class NodeRunner:
    """One database, any number of nodes on it, and short ways to say what a test wants."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        # A lease that no slow machine can lose; tests of lost leases set their own.
        self.settings = settings.model_copy(update={"lease_duration": timedelta(minutes=5)})

    @contextlib.asynccontextmanager
    async def node(self, *handlers: Handler, **changes: Any) -> AsyncGenerator[asyncio.Event]:
        """A node that serves these handlers, until the end of the block or the event."""
        stopping, joined = asyncio.Event(), asyncio.Event()
        settings = self.settings.model_copy(update=changes)
        running = asyncio.ensure_future(
            node.run(self.database, Registry(handlers), settings, stopping, joined.set)
        )
        await asyncio.wait(
            [running, waiting := asyncio.ensure_future(joined.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        waiting.cancel()
        try:
            yield stopping
        finally:
            stopping.set()
            await running

    async def add(self, schedule: str = "now", *, kind: str = "work", **more: Any) -> Job:
        await nodes.open_lanes(self.database, [kind])
        policy = Policy(**more.pop("policy", {}))
        written = Definition(kind, Timetable(parse_schedule(schedule)), policy=policy, **more)
        return await Jobs(self.database, Registry()).add(written)

    async def find(self, job: Job) -> Job:
        return await jobs.find_job(self.database, job.uid)

    async def cancel(self, job: Job) -> Job:
        return await Jobs(self.database, Registry()).cancel(job.uid)

    async def runs(self, job: Job) -> list[Run]:
        """The job's runs, oldest first, with the one in hand and the missed beats."""
        found = await runs.list_runs(self.database, job.id, job.uid, limit=1000, offset=0)
        return found[::-1]

    async def started(self, job: Job, number: int = 1) -> Run:
        """Wait for the run of this number to be in hand or over."""

        async def look() -> Run | None:
            return next((run for run in await self.runs(job) if run.number == number), None)

        return await eventually(look, f"run {number} of {job.id}")

    async def closed(self, job: Job, number: int = 1) -> Run:
        """Wait for the end of the run of this number."""

        async def look() -> Run | None:
            found = [run for run in await self.runs(job) if run.number == number]
            return next((run for run in found if run.state is not RunState.RUNNING), None)

        return await eventually(look, f"the end of run {number} of {job.id}")

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        async with self.database.connection() as connection:
            return await connection.fetch(query, *values)

    async def value(self, query: str, *values: Any) -> Any:
        [[value]] = await self.fetch(query, *values)
        return value


# What must hold whatever a test did: each query finds the rows that break a rule.
RULES = {
    "the runs of a job are numbered 1 to n without a gap": """
        select job_id from evenbeat.run_all
        group by job_id having count(*) <> max(number) or min(number) <> 1
    """,
    "a run ends after it started": """
        select id from evenbeat.run where finished_at < started_at
    """,
    "no dead node holds a lease": """
        select pulse.id from evenbeat.pulse
        join evenbeat.node on node.id = pulse.node_id
        where pulse.token is not null and node.dead_at is not null
    """,
    "an attempt at a beat is completed once": """
        select job_id from evenbeat.run where state = 'c' and beat_at is not null
        group by job_id, beat_at having count(*) > 1
    """,
    "no run starts before its beat": """
        select id from evenbeat.run where state <> 'k' and beat_at > started_at
    """,
    "every permit is of a run in hand, and every such run of a group has one": """
        select coalesce(held.id, permit.job_id)
        from (
            select id, group_id from evenbeat.pulse
            where token is not null and group_id is not null
        ) as held
        full join evenbeat.permit
            on permit.job_id = held.id and permit.group_id = held.group_id
        where held.id is null or permit.job_id is null
    """,
    "nothing is wanted of a job at rest, and none is tucked away": """
        select id from evenbeat.pulse where token is null and (wanted is not null or is_tucked)
    """,
    "what the counters say is what the history says": """
        select pulse.id from evenbeat.pulse
        left join evenbeat.run on run.job_id = pulse.id
        group by pulse.id
        having count(*) filter (where run.state = 'c') <> pulse.completed_count
            or count(*) filter (where run.state = 'f') <> pulse.failed_count
    """,
}
