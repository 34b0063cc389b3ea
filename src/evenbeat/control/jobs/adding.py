"""Adds jobs: one, a hundred thousand at once, as part of another change, or by name."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import Any
from uuid import UUID

from evenbeat.control.jobs import actions
from evenbeat.control.jobs.validation import (
    NewJobEntry,
    Validator,
    as_stored,
    check_connection,
    check_name_is_new,
    read_entries,
    resolved_group,
    unserved_warnings,
)
from evenbeat.core.errors import Conflict, FieldError, InvalidInput, NotFound
from evenbeat.core.jobs import planning
from evenbeat.core.jobs.groups import Group, describe_group_conflicts
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Definition, Job, Pulse, State
from evenbeat.core.jobs.payload import is_same_json
from evenbeat.core.jobs.planning import JobPlan, JobPlans, seeded_timetable
from evenbeat.core.ops.audit import PYTHON, Actor
from evenbeat.core.runs.registry import Registry
from evenbeat.observe import log, traces
from evenbeat.placement.job_placer import JobPlacer
from evenbeat.placement.placer import Placer
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, DatabaseClock, Session
from evenbeat.store.jobs import groups, job_inserts, jobs, sql_function_checks
from evenbeat.store.jobs.job_inserts import (
    Inserted,
    InsertResult,
    NewJob,
    new_job_uid,
    new_job_uids,
)
from evenbeat.store.jobs.job_writer import JobWriter
from evenbeat.store.jobs.sql_function_checks import CallFaults
from evenbeat.store.ops import nodes

MOST_ERRORS = 100
MOST_WARNINGS = 100
# After so many definitions, other tasks of this process get their turn.
DEFINITIONS_PER_TURN = 1000
# Seconds. More often than this, commits that notify would wait for each other.
QUIET = 0.02
# A job that held the key or the name may be gone when we look for it: then we start again.
TRIES = 10


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of jobs that were added at once.

    `uids` are in the order of the entries. `found` are the positions of those that existed already,
    by their dedupe keys. `warnings` has at most a hundred.
    """

    uids: list[UUID]
    found: frozenset[int] = frozenset()
    are_recurring: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def new_count(self) -> int:
        return len(self.uids) - len(self.found)


class JobAdder:
    """Adds jobs to one database: validate, plan, insert, place."""

    def __init__(
        self, database: Database, registry: Registry, placement: Placer | None = None
    ) -> None:
        """Without a `placement`, the nodes place the jobs."""
        self._database = database
        self._registry = registry
        self._clock = DatabaseClock(database)
        self._writer = JobWriter(database)
        self._placer = JobPlacer(database, placement)
        self._waker = clock.Waker(database)
        self._known_kinds: set[str] = set()
        self._added_at = 0.0

    async def close(self) -> None:
        """Wait until every job is written and the nodes are woken; before the database closes."""
        await self._writer.close()
        await self._waker.close()

    @traces.trace_sending
    async def add(
        self,
        definition: Definition,
        *,
        dedupe_key: str | None = None,
        connection: Any = None,
        by: Actor = PYTHON,
    ) -> Job:
        """Plan and store a new job, and wake the nodes. The job that is returned is on disk.

        While a live job holds the `dedupe_key`, that job is returned instead, and `is_new` is
        false. On a `connection` of asyncpg the job is part of the caller's transaction.
        """
        check_connection(connection)
        validator = await self._validator([definition], connection)
        payload = validator.validate(definition, dedupe_key)
        warnings = await unserved_warnings(self._database, [definition])

        now = await self._clock.now()
        plan = planning.plan_job(seeded_timetable(definition), now)
        new_job = build_new_job(new_job_uid(now), definition, plan, payload, dedupe_key, by)

        is_soon = plan.first_beat < now + clock.SOON
        job = await self._insert(new_job, warnings, connection, is_soon=is_soon)

        return job if connection is not None else await self._placer.place_new_job(job)

    async def add_many(
        self, entries: Iterable[NewJobEntry], *, connection: Any = None, by: Actor = PYTHON
    ) -> Batch:
        """Up to 100,000 new jobs, all or none: definitions, or pairs of one and its dedupe key."""
        check_connection(connection)
        items = list(read_entries(entries))
        if not items:
            return Batch([])
        definitions = [definition for definition, _ in items]
        validator = await self._validator(definitions, connection)
        now = await self._clock.now()
        new_jobs = await build_new_jobs(validator, items, now, by)
        warnings = await unserved_warnings(self._database, definitions)

        # Of several entries with the same dedupe key, the first becomes the job.
        first_of: dict[str | None, NewJob] = {
            new.dedupe_key: new for new in reversed(new_jobs) if new.dedupe_key
        }
        distinct = [new for new in new_jobs if first_of.get(new.dedupe_key, new) is new]
        plans = {id(new.plan): new.plan for new in new_jobs}.values()
        is_soon = min(plan.first_beat for plan in plans) < now + clock.SOON
        stored = await self._writer.insert(distinct, wakes=is_soon, connection=connection)
        uids = {key: new.uid for key, new in first_of.items()} | stored.holders
        batch = Batch(
            [uids[new.dedupe_key] if new.dedupe_key else new.uid for new in new_jobs],
            frozenset(
                position
                for position, new in enumerate(new_jobs)
                if new.dedupe_key in stored.holders or first_of.get(new.dedupe_key, new) is not new
            ),
            any(plan.state is State.SCHEDULED for plan in plans),
            collect_warnings(new_jobs, stored, warnings),
        )
        log.get_logger().info(log.JOBS_CREATED, count=batch.new_count, by=by.name)

        if connection is None and batch.are_recurring:
            await self._placer.place(batch.uids)
        return batch

    async def add_within(
        self, session: Session, definitions: Sequence[Definition], *, by: Actor = PYTHON
    ) -> list[UUID]:
        """New jobs as part of another change, in its transaction. Its commit wakes the nodes, and a
        node places the jobs."""
        if not definitions:
            return []
        validator = await self._validator(definitions)
        now = await self._clock.now()
        plans, uids = JobPlans(now), new_job_uids(now, len(definitions))
        new_jobs = [
            build_new_job(uid, each, plans.plan(each), validator.validate(each), None, by)
            for uid, each in zip(uids, definitions, strict=True)
        ]
        await job_inserts.insert_all(session, new_jobs, InsertResult(), wakes=True)
        return uids

    async def put(self, definition: Definition, *, by: Actor = PYTHON) -> Job:
        """The job of this name is to be so: made, changed, or left as it is; may be repeated.

        A schedule that stays the same keeps its rhythm and a beat that is still owed.
        """
        if definition.name is None:
            raise InvalidInput("name", "is missing: it says which job is meant")
        resolved = await self.resolve_definition(definition)
        for _ in range(TRIES):
            job = await jobs.find_job_by_name(self._database, definition.name)
            try:
                if job is None:
                    return await self.add(definition, by=by)
                if await self.is_same(job, definition):
                    return replace(job, warnings=await self._warnings(resolved))
                return await self._edit(job.uid, resolved, by=by, version=job.version)
            except (Conflict, NotFound):
                # Another caller took the name, or changed or deleted the job, since we looked.
                continue
        raise Conflict(f"the jobs named {definition.name!r} come and go; put it again")

    async def is_put(self, definition: Definition) -> bool | None:
        """Whether `put` would change nothing; None: there is no job of this name yet."""
        await self.validate(definition)
        job = definition.name and await jobs.find_job_by_name(self._database, definition.name)
        return await self.is_same(job, definition) if job else None

    async def validate(self, definition: Definition) -> None:
        """Raise InvalidInput if the definition cannot work. Nothing is written."""
        (await self._validator([definition])).validate(definition)

    async def resolve_definition(self, definition: Definition) -> Definition:
        """The valid definition with what the name and the payload decide about it filled in."""
        await self.validate(definition)
        return replace(
            definition, timetable=seeded_timetable(definition), group=resolved_group(definition)
        )

    async def is_same(self, job: Job, definition: Definition) -> bool:
        """Whether the job would stay as it is, its rhythm included."""
        now = await self._clock.now()
        timetable = planning.keep_phase(seeded_timetable(definition), job.definition.timetable, now)
        wanted = as_stored(definition, timetable)
        return wanted == job.definition and is_same_json(wanted.payload, job.definition.payload)

    async def _validator(
        self, definitions: Sequence[Definition], connection: Any = None
    ) -> Validator:
        """A validator that knows every kind that this process or any node ever served, and the
        faults of the SQL functions that the definitions call."""
        kinds = {each.kind for each in definitions} - self._registry.kinds.keys()
        if not kinds <= self._known_kinds:
            self._known_kinds = {lane.kind for lane in await nodes.list_lanes(self._database)}
        faults: CallFaults = {}
        functions = [each for each in definitions if each.kind == sql_function_checks.KIND]
        if functions:
            # The caller's transaction may have created the functions, so that it is asked.
            session = self._session_on(connection)
            faults = await sql_function_checks.find_call_faults(session, functions)
        return Validator(self._registry, self._known_kinds, faults)

    async def _insert(
        self, new_job: NewJob, warnings: tuple[str, ...], connection: Any, *, is_soon: bool
    ) -> Job:
        """The new job, or the live job that holds its dedupe key."""
        # If no other job was just added, waking by the commit is soonest. A caller's transaction
        # has no other way.
        wakes = is_soon and (self._is_quiet() or connection is not None)
        for _ in range(TRIES):
            stored = await self._writer.insert([new_job], wakes=wakes, connection=connection)
            if not stored.holders:
                if is_soon and not wakes:
                    self._waker.wake_soon()
                job = await self._new_job(new_job, stored.inserted)
            else:
                [holder] = stored.holders.values()
                job = await self._find_holder(holder, connection)
            if job is not None:
                said = (*group_warnings(new_job.group, stored), *warnings)
                return replace(job, warnings=said) if said else job
        raise Conflict(f"the jobs of dedupe key {new_job.dedupe_key!r} come and go; add it again")

    async def _new_job(self, new_job: NewJob, inserted: Inserted | None) -> Job:
        by = PYTHON if new_job.by is None else new_job.by
        kind = new_job.definition.kind
        log.get_logger().info(log.JOB_CREATED, job_id=str(new_job.uid), kind=kind, by=by.name)
        if inserted is None:
            # The answer was lost, and the job was found by its id.
            return replace(await jobs.find_job(self._database, new_job.uid), is_new=True)
        self._clock.set_time(inserted.at)
        return inserted_job(new_job, inserted)

    async def _find_holder(self, uid: UUID, connection: Any) -> Job | None:
        """None: the job was deleted meanwhile."""
        try:
            return await jobs.find_job(self._session_on(connection), uid)
        except NotFound:
            return None

    async def _edit(
        self,
        uid: UUID,
        to: Definition,
        *,
        by: Actor,
        version: int | None,
        switch: Action | None = None,
    ) -> Job:
        unserved = await unserved_warnings(self._database, [to])
        warnings = await actions.edit(
            self._database, uid, to, by=by, version=version, switch=switch
        )
        await self._placer.place([uid])
        job = await jobs.find_job(self._database, uid)
        return replace(job, warnings=(*warnings, *unserved))

    async def _warnings(self, definition: Definition) -> tuple[str, ...]:
        """Limits that its group does not have, and whether the job waits for a node."""
        unserved = await unserved_warnings(self._database, [definition])
        asked = definition.group
        if asked is None or (asked.max_running is None and asked.rate is None):
            return unserved
        stored = await groups.find_group(self._database, asked.key)
        return (*describe_group_conflicts(asked, stored), *unserved)

    def _session_on(self, connection: Any) -> Session:
        if connection is None:
            return self._database
        return Session(connection, self._database.clock)

    def _is_quiet(self) -> bool:
        """Whether the last job was added a while ago."""
        added_at, self._added_at = self._added_at, time.monotonic()
        return self._added_at - added_at > QUIET


async def build_new_jobs(
    validator: Validator,
    items: Sequence[tuple[Definition, str | None]],
    now: datetime,
    by: Actor,
) -> list[NewJob]:
    """All jobs, valid and planned, or InvalidInput with the first hundred faults and their
    positions."""
    new_jobs: list[NewJob] = []
    faults: list[FieldError] = []
    names: dict[str, int] = {}
    plans = JobPlans(now)
    uids = new_job_uids(now, len(items))
    for position, (definition, key) in enumerate(items):
        try:
            payload = validator.validate(definition, key)
            plan = plans.plan(definition)
            new_jobs.append(build_new_job(uids[position], definition, plan, payload, key, by))
            if definition.name is not None:
                check_name_is_new(definition.name, position, names)
        except InvalidInput as error:
            where = f"jobs[{position}]"
            faults.extend(FieldError(f"{where}.{e.field}", e.message) for e in error.errors)
        if len(faults) >= MOST_ERRORS:
            break
        if position % DEFINITIONS_PER_TURN == 0:
            await asyncio.sleep(0)
    if faults:
        first, *more = faults[:MOST_ERRORS]
        raise InvalidInput(first.field, first.message, more=more)
    return new_jobs


def build_new_job(
    uid: UUID,
    definition: Definition,
    plan: JobPlan,
    payload: str,
    dedupe_key: str | None,
    by: Actor,
) -> NewJob:
    # A program that does not name who adds the job is not recorded in the audit.
    audited = None if by is PYTHON else by
    group = resolved_group(definition) if definition.group else None
    return NewJob(uid, definition, plan, payload, group, dedupe_key, audited)


def inserted_job(new_job: NewJob, inserted: Inserted) -> Job:
    """The job that was just stored, without reading it."""
    plan = new_job.plan
    return Job(
        id=inserted.first_id,
        uid=new_job.uid,
        definition=as_stored(new_job.definition, plan.timetable),
        pulse=Pulse(
            plan.state,
            next_beat_at=plan.first_beat,
            due_at=plan.first_beat,
            state_at=inserted.at,
            resting=plan.state,
        ),
        version=1,
        created_at=inserted.at,
        updated_at=inserted.at,
        is_new=True,
    )


def group_warnings(asked: Group | None, stored: InsertResult) -> tuple[str, ...]:
    """The limits that a job asks for and that its group, which exists already, does not have."""
    group = asked and stored.groups.get(asked.key)
    return describe_group_conflicts(asked, group) if asked and group else ()


def collect_warnings(
    new_jobs: Sequence[NewJob], stored: InsertResult, unserved: tuple[str, ...]
) -> tuple[str, ...]:
    """Each warning once, however many jobs it is about."""
    asked = dict.fromkeys(new.group for new in new_jobs if new.group)
    of_groups = chain.from_iterable(group_warnings(group, stored) for group in asked)
    return tuple(islice(chain(of_groups, unserved), MOST_WARNINGS))
