"""How jobs come into being: one, a hundred thousand at once, or by name."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any
from uuid import UUID

from evenbeat.control.jobs import lost_answers
from evenbeat.control.jobs.checks import check_connection
from evenbeat.control.jobs.group_commit import GroupCommit
from evenbeat.control.jobs.unserved import unserved_warnings
from evenbeat.control.jobs.validation import (
    NewJobBuilder,
    NewJobEntry,
    as_stored,
    build_new_jobs,
    inserted_job,
    read_entries,
    resolved_group,
    seeded,
)
from evenbeat.core.errors import Conflict, NotFound
from evenbeat.core.jobs import planning
from evenbeat.core.jobs.groups import Group, describe_group_conflicts
from evenbeat.core.jobs.model import Definition, Job, State
from evenbeat.core.jobs.payload import is_same_json
from evenbeat.core.ops.audit import PYTHON, Actor
from evenbeat.core.runs.registry import Registry
from evenbeat.observe import log
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, Session, savepoint_on, transaction_on
from evenbeat.store.jobs import groups, job_inserts, jobs, sql_function_checks
from evenbeat.store.jobs.groups import StoredGroup
from evenbeat.store.jobs.job_inserts import Inserted, NewJob
from evenbeat.store.jobs.new_uids import new_job_uid, new_job_uids
from evenbeat.store.jobs.sql_function_checks import CallFaults
from evenbeat.store.ops import nodes

# One statement each: megabytes, and a fraction of a second in which nobody else hears of us.
CHUNK = 10_000
# Faster than this, commits that notify would wait for each other.
QUIET = 0.02
# Somebody else may be first, and its job may be gone by the time we look: again, but not for ever.
TRIES = 10
# As many as somebody may read.
MOST_WARNINGS = 100
# In bytes of payload; what is larger would keep others waiting for itself.
LARGEST_TOGETHER = 10_000


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of jobs that were added at once: `uids` are in the order in which they were
    given, and `found` are the places of those that were there already, by their dedupe keys.
    `are_recurring`: some are. `warnings`, up to a hundred, tell of limits that groups have not."""

    uids: list[UUID]
    found: frozenset[int] = frozenset()
    are_recurring: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def new_count(self) -> int:
        return len(self.uids) - len(self.found)


@dataclass(slots=True)
class JobInsert:
    """Newborns on their way, and the live jobs that hold dedupe keys of theirs."""

    newborns: list[NewJob]
    wakes: bool
    # None as well where they were stored and the answer was lost.
    born: Inserted | None = None
    # Where the answer was lost.
    looking: lost_answers.StoredJobSearch | None = None
    holders: dict[str, UUID] = field(default_factory=dict[str, UUID])
    groups: dict[str, StoredGroup] = field(default_factory=dict[str, StoredGroup])

    def warnings(self, asked: Group | None) -> tuple[str, ...]:
        """What is said of a group that does not hold there."""
        there = asked and self.groups.get(asked.key)
        return describe_group_conflicts(asked, there) if asked and there else ()


class JobAdder:
    """Adds jobs to one database."""

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._registry = registry
        self._watch = clock.DatabaseClock(database)
        self._waker = clock.Waker(database)
        self.gathering = GroupCommit(self._store_plain)
        self._doubts = lost_answers.StoredJobSearches(database)
        self._known_kinds: set[str] = set()
        self._added_at = 0.0

    async def close(self) -> None:
        await self.gathering.done()
        await self._doubts.done()
        await self._waker.done()

    async def add(
        self, definition: Definition, dedupe_key: str | None, connection: Any, by: Actor
    ) -> Job:
        check_connection(connection)
        preparation = await self._prepare([definition], by, connection)
        newborn = preparation.build_new_job(new_job_uid(preparation.now), definition, dedupe_key)
        # Asked before it is stored: should it fail, there is no job yet.
        waits = await unserved_warnings(self._database, [definition])
        is_soon = newborn.plan.first_beat < preparation.now + clock.SOON
        # In quiet, waking along with the commit is soonest; a caller's commit is the only way.
        wakes = is_soon and (self._is_quiet() or connection is not None)
        for _ in range(TRIES):
            storing = JobInsert([newborn], wakes)
            await self._store(storing, connection)
            told = (*storing.warnings(newborn.group), *waits)
            if not storing.holders:
                if is_soon and not wakes:
                    self._waker.wake_soon()
                log.get_logger().info(
                    log.JOB_CREATED, job_id=str(newborn.uid), kind=definition.kind, by=by.name
                )
                job = await self._new_job(newborn, storing.born)
                return replace(job, warnings=told) if told else job
            [holder] = storing.holders.values()
            job = await self._existing(holder, connection)
            if job is not None:
                return replace(job, warnings=told) if told else job
        raise Conflict(f"the jobs of dedupe key {dedupe_key!r} come and go; add it again")

    async def add_many(self, entries: Iterable[NewJobEntry], connection: Any, by: Actor) -> Batch:
        check_connection(connection)
        items = list(read_entries(entries))
        preparation = await self._prepare([each for each, _ in items], by, connection)
        prepared = await build_new_jobs(items, preparation)
        if not prepared:
            return Batch([])
        waits = await unserved_warnings(self._database, (each for each, _ in items))
        first_of = {each.dedupe_key: each for each in reversed(prepared) if each.dedupe_key}
        distinct = [e for e in prepared if not e.dedupe_key or first_of[e.dedupe_key] is e]
        # Plans are few, and shared.
        plans = {id(each.plan): each.plan for each in prepared}.values()
        is_soon = min(plan.first_beat for plan in plans) < preparation.now + clock.SOON
        storing = JobInsert(distinct, is_soon)
        await self._store(storing, connection)
        uids = {key: each.uid for key, each in first_of.items()} | storing.holders
        batch = Batch(
            [uids[each.dedupe_key] if each.dedupe_key else each.uid for each in prepared],
            frozenset(
                place
                for place, each in enumerate(prepared)
                if each.dedupe_key
                and (each.dedupe_key in storing.holders or first_of[each.dedupe_key] is not each)
            ),
            any(plan.state is State.SCHEDULED for plan in plans),
            collect_warnings(prepared, storing, waits),
        )
        log.get_logger().info(log.JOBS_CREATED, count=batch.new_count, by=by.name)
        return batch

    async def add_within(
        self, session: Session, definitions: Sequence[Definition], by: Actor
    ) -> list[UUID]:
        """In a transaction of ours that is under way; the nodes hear of it at its commit."""
        if not definitions:
            return []
        preparation = await self._prepare(definitions, by)
        uids = new_job_uids(preparation.now, len(definitions))
        prepared = [
            preparation.build_new_job(uid, definition, None)
            for uid, definition in zip(uids, definitions, strict=True)
        ]
        await insert_jobs(session, JobInsert(prepared, wakes=True))
        return uids

    async def refuse(self, definition: Definition) -> None:
        """Raise InvalidInput if it cannot work; nothing is written."""
        (await self._prepare([definition])).check(definition)

    async def check(self, definition: Definition) -> Definition:
        """For a job that exists: refuse what cannot work."""
        await self.refuse(definition)
        return replace(definition, timetable=seeded(definition), group=resolved_group(definition))

    async def is_same(self, job: Job, definition: Definition) -> bool:
        """Whether the job would stay as it is, its rhythm included."""
        now = await self._watch.now()
        timetable = planning.keep_phase(seeded(definition), job.definition.timetable, now)
        wanted = as_stored(definition, timetable)
        return wanted == job.definition and is_same_json(wanted.payload, job.definition.payload)

    async def _prepare(
        self, definitions: Sequence[Definition], by: Actor = PYTHON, connection: Any = None
    ) -> NewJobBuilder:
        """A kind is known if this process or any node ever served it."""
        kinds = {each.kind for each in definitions}
        if not all(kind in self._registry or kind in self._known_kinds for kind in kinds):
            self._known_kinds = {lane.kind for lane in await nodes.list_lanes(self._database)}
        return NewJobBuilder(
            self._registry,
            self._known_kinds,
            await self._watch.now(),
            await self._faults(definitions, connection),
            audited_actor(by),
        )

    async def _faults(self, definitions: Sequence[Definition], connection: Any) -> CallFaults:
        """What is wrong with the SQL functions that these jobs call. Asked of the caller's
        connection, since its transaction may have made them."""
        calls = list(
            {call for each in definitions if (call := sql_function_checks.find_function_call(each))}
        )
        if not calls:
            return {}
        session = self._database
        if connection is not None:
            session = Session(connection, self._database.clock)
        return await sql_function_checks.find_call_faults(session, calls)

    def _is_quiet(self) -> bool:
        """Whether the last job was added a while ago."""
        added_at, self._added_at = self._added_at, time.monotonic()
        return self._added_at - added_at > QUIET

    async def _store(self, storing: JobInsert, connection: Any) -> None:
        if connection is not None:
            await self._write(connection, storing, is_ours=False)
            return
        if len(storing.newborns) == 1 and can_share_insert(storing.newborns[0]):
            await self.gathering.add(storing)
            # Lanes are few and nearly always open: that one is not is found out by trying.
            if await is_stored(storing):
                return
        unanswered = await lost_answers.try_write(
            self._database, lambda ours: self._write(ours, storing, is_ours=True)
        )
        if unanswered is not None:
            uids = [each.uid for each in storing.newborns]
            await lost_answers.find_stored_jobs(self._database, uids, unanswered)

    async def _store_plain(self, together: list[JobInsert]) -> None:
        """Those whose lane is open, in one statement."""
        prepared = [storing.newborns[0] for storing in together]

        async def write(connection: Any) -> None:
            born = await job_inserts.insert_jobs(
                Session(connection, self._database.clock),
                prepared,
                wakes=any(storing.wakes for storing in together),
                tells=True,
            )
            ids = born.ids or {}
            for storing, newborn in zip(together, prepared, strict=True):
                job_id = ids.get(newborn.uid)
                if job_id is not None:
                    storing.born = Inserted(1, job_id, born.at)

        unanswered = await lost_answers.try_write(self._database, write)
        if unanswered is not None:
            # Once for all of them; others are written meanwhile.
            looking = self._doubts.search_for([each.uid for each in prepared], unanswered)
            for storing in together:
                storing.looking = looking

    async def _write(self, connection: Any, storing: JobInsert, *, is_ours: bool) -> None:
        first = storing.newborns[0]
        # A name that is taken would spoil the caller's transaction, were it not a part of its own.
        is_simple = first.group is None and (is_ours or first.definition.name is None)
        if is_simple and len(storing.newborns) == 1:
            session = Session(connection, self._database.clock)
            born = await job_inserts.insert_jobs(session, storing.newborns, wakes=storing.wakes)
            if born.count:
                storing.born = born
                return
            if first.dedupe_key is not None:
                storing.holders = await job_inserts.find_dedupe_holders(session, [first.dedupe_key])
                if storing.holders:
                    return
        unit = savepoint_on if connection.is_in_transaction() else transaction_on
        async with unit(connection, self._database.clock) as session:
            await insert_jobs(session, storing)

    async def _new_job(self, newborn: NewJob, born: Inserted | None) -> Job:
        if born is None:
            return replace(await jobs.find_job(self._database, newborn.uid), is_new=True)
        self._watch.hear(born.at)
        return inserted_job(newborn, born)

    async def _existing(self, uid: UUID, connection: Any) -> Job | None:
        """None: it has been deleted meanwhile."""
        session = self._database
        if connection is not None:
            session = Session(connection, self._database.clock)
        try:
            return await jobs.find_job(session, uid)
        except NotFound:
            return None


def collect_warnings(
    prepared: Sequence[NewJob], storing: JobInsert, waits: tuple[str, ...]
) -> tuple[str, ...]:
    """Each warning once, whatever number of jobs says it."""
    asked = dict.fromkeys(each.group for each in prepared if each.group)
    of_groups = chain.from_iterable(map(storing.warnings, asked))
    return tuple(islice(chain(of_groups, waits), MOST_WARNINGS))


def audited_actor(by: Actor) -> Actor | None:
    """A program that does not say in whose name it adds jobs is nobody to be audited."""
    return None if by is PYTHON else by


async def is_stored(storing: JobInsert) -> bool:
    """Of a job that went together with others; where it is not, its lane was closed."""
    if storing.looking is None:
        return storing.born is not None
    return await lost_answers.is_job_found(storing.looking, storing.newborns[0].uid)


def can_share_insert(newborn: NewJob) -> bool:
    """Whether nothing but the server itself could keep it waiting: so others may wait with it."""
    return (
        newborn.dedupe_key is None
        and newborn.definition.name is None
        and newborn.group is None
        # There are no fewer bytes than characters, and a long text is not counted twice.
        and len(newborn.payload) <= LARGEST_TOGETHER
        and len(newborn.payload.encode()) <= LARGEST_TOGETHER
    )


async def insert_jobs(session: Session, storing: JobInsert) -> None:
    """Lanes, then groups, then keys, then names: everybody who adds jobs waits in this order."""
    written = [each.definition for each in storing.newborns]
    await open_lanes(session, {(each.kind, each.runs_on) for each in written})
    # The first job that names a group says what it allows.
    named = {each.group.key: each.group for each in reversed(storing.newborns) if each.group}
    storing.groups = await groups.ensure_groups(session, list(named.values())) if named else {}
    group_ids = {key: group.id for key, group in storing.groups.items()}
    left = storing.newborns
    if any(each.dedupe_key or each.definition.name for each in left):
        left = sorted(left, key=insert_order)
    for _ in range(TRIES):
        left = await insert_in_chunks(session, left, storing, group_ids)
        held = await job_inserts.find_dedupe_holders(
            session, [each.dedupe_key or "" for each in left]
        )
        storing.holders |= held
        # Who held the others has ended since.
        left = [each for each in left if each.dedupe_key not in held]
        if not left:
            return
    raise Conflict(f"the jobs of dedupe key {left[0].dedupe_key!r} come and go; add it again")


async def insert_in_chunks(
    session: Session, left: Sequence[NewJob], storing: JobInsert, group_ids: dict[str, int]
) -> list[NewJob]:
    """Store them; those come back whose dedupe key somebody holds."""
    refused: list[NewJob] = []
    for start in range(0, len(left), CHUNK):
        chunk = left[start : start + CHUNK]
        is_last = start + CHUNK >= len(left)
        # Those with keys come first.
        has_keys = chunk[0].dedupe_key is not None
        born = await job_inserts.insert_jobs(
            session,
            chunk,
            group_ids=group_ids,
            wakes=storing.wakes and is_last,
            tells=has_keys,
        )
        storing.born = born
        if born.ids is not None:
            refused += [each for each in chunk if each.uid not in born.ids]
        elif born.count != len(chunk):
            raise Conflict("a lane of these jobs was closed meanwhile; add them again")
    return refused


def insert_order(newborn: NewJob) -> tuple[bool, str, bool, str]:
    key, name = newborn.dedupe_key, newborn.definition.name
    return key is None, key or "", name is None, name or ""


async def open_lanes(session: Session, lanes: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    wanted_lanes = {(kind, frozenset(runs_on)) for kind, runs_on in lanes}
    known = {(lane.kind, lane.runs_on) for lane in await nodes.list_lanes(session)}
    missing = [(sorted(runs_on), kind) for kind, runs_on in wanted_lanes - known]
    for runs_on, kind in sorted(missing):
        await nodes.open_lanes(session, [kind], runs_on)
