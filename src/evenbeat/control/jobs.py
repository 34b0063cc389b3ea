"""Jobs as people handle them: add one, look at one."""

import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from uuid import UUID

from evenbeat.core import lifecycle, planning
from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.groups import Group, resolve
from evenbeat.core.ids import new_job_uid
from evenbeat.core.model import Definition, Job
from evenbeat.core.payload import check_json, check_text
from evenbeat.core.registry import Registry
from evenbeat.observe import log, traces
from evenbeat.store import clock, groups, jobs, nodes
from evenbeat.store.database import Database

LONGEST_NAME = 200
HIGHEST_PRIORITY = 100


# Faster than this, commits that notify would wait for each other.
QUIET = 0.02


class Jobs:
    """The jobs of one database."""

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._registry = registry
        self._watch = clock.Watch(database)
        self._known_kinds: set[str] = set()
        self._added_at = 0.0

    @traces.sends
    async def add(self, definition: Definition) -> Job:
        """Plan and store a new job, and wake the nodes. What comes back is on disk."""
        check_definition(definition)
        await self._check_kind(definition)
        now = await self._watch.now()
        timetable = definition.timetable
        if definition.name is not None:
            timetable = timetable.seeded(definition.name)
        first_beat = planning.first_beat(timetable, now)
        if first_beat is None:
            raise InvalidInput("schedule", "has no beat left: nothing would ever run")
        uid, group = new_job_uid(now), resolved_group(definition)
        planned = replace(definition, timetable=timetable.planned_at(now), group=group)
        is_quiet = self._is_quiet()
        await self._store(planned, uid, first_beat, wakes=is_quiet)
        if not is_quiet:
            await clock.wake(self._database)
        log.get_logger().info(log.JOB_CREATED, job_id=str(uid), kind=definition.kind)
        return await self.get(uid)

    async def cancel(self, uid: UUID) -> Job:
        """Stop it for good. A run in hand is stopped wherever it runs, once its node hears."""
        job = await self.get(uid)
        has_next = job.pulse.next_beat_at is not None
        lifecycle.check(lifecycle.Action.CANCEL, job.pulse.state, has_next=has_next)
        if not await jobs.cancel(self._database, job.id):
            # It has moved on since we looked: what it allows now is done, or told.
            return await self.cancel(uid)
        await clock.wake(self._database)
        return await self.get(uid)

    async def get(self, uid: UUID) -> Job:
        return await jobs.by_uid(self._database, uid)

    def _is_quiet(self) -> bool:
        """Whether the last job was added a while ago: then waking along with the commit is best."""
        added_at, self._added_at = self._added_at, time.monotonic()
        return self._added_at - added_at > QUIET

    async def _store(
        self, definition: Definition, uid: UUID, first_beat: datetime, *, wakes: bool
    ) -> None:
        """A group is made along with its first job, or not at all."""
        insert = partial(
            jobs.insert,
            definition=definition,
            uid=uid,
            state=planning.initial_state(definition),
            first_beat=first_beat,
            wakes=wakes,
        )
        # Lanes are few and nearly always open: that is found out by trying.
        if definition.group is None and await insert(self._database):
            return
        await nodes.open_lanes(self._database, [definition.kind], definition.runs_on)
        async with self._database.transaction() as session:
            wanted = definition.group
            group = await groups.ensure(session, wanted.key, wanted) if wanted else None
            if not await insert(session, group_id=group and group.id):
                raise Conflict(f"the lane of kind {definition.kind!r} was closed meanwhile")

    async def _check_kind(self, definition: Definition) -> None:
        """A kind is known if this process or any node ever served it."""
        if definition.kind in self._registry:
            self._registry[definition.kind].check(definition.payload)
            return
        if definition.kind not in self._known_kinds:
            self._known_kinds = {lane.kind for lane in await nodes.lanes(self._database)}
        if definition.kind not in self._known_kinds:
            choices = ", ".join(sorted({*self._registry, *self._known_kinds}))
            raise InvalidInput("kind", f"no kind {definition.kind!r}; known kinds: {choices}")


def resolved_group(definition: Definition) -> Group | None:
    """The job's group with its key filled in from the job."""
    if definition.group is None:
        return None
    facts = {
        "kind": definition.kind,
        "name": definition.name,
        "payload": definition.payload,
        "labels": definition.labels,
    }
    return replace(definition.group, key=resolve(definition.group.key, facts))


def check_definition(definition: Definition) -> None:
    """What the tables would refuse is told by its field."""
    if definition.name is not None:
        check_text(definition.name, "name")
        if not 1 <= len(definition.name) <= LONGEST_NAME:
            raise InvalidInput("name", f"must have 1 to {LONGEST_NAME} characters")
        if not definition.name.strip():
            raise InvalidInput("name", "must not be blank")
    if not 0 <= definition.priority <= HIGHEST_PRIORITY:
        raise InvalidInput("priority", f"must be from 0 to {HIGHEST_PRIORITY}")
    check_text(definition.kind, "kind")
    check_json(definition.payload, "payload")
    check_json(definition.labels, "labels")
    check_json(list(definition.runs_on), "runs_on")
