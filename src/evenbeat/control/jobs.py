"""Jobs as people handle them: everything that can be done to them."""

import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from uuid import UUID

from evenbeat.control import actions
from evenbeat.control.actions import Tally
from evenbeat.core import planning
from evenbeat.core.audit import PYTHON, Actor
from evenbeat.core.errors import Conflict, InvalidInput, NotFound
from evenbeat.core.filters import Filter
from evenbeat.core.groups import Group, resolve
from evenbeat.core.ids import new_job_uid
from evenbeat.core.lifecycle import Action
from evenbeat.core.model import Definition, Job
from evenbeat.core.payload import check_json, check_text
from evenbeat.core.registry import Registry
from evenbeat.observe import log
from evenbeat.store import actions as store_actions
from evenbeat.store import clock, groups, jobs, nodes
from evenbeat.store.actions import Version
from evenbeat.store.database import Database
from evenbeat.store.jobs import Unreadable

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

    async def get(self, uid: UUID, *, with_deleted: bool = False) -> Job:
        return await jobs.by_uid(self._database, uid, with_deleted=with_deleted)

    async def run(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Run it once, now; its schedule is not touched. A retry that waits comes forward instead.

        A paused or disabled job runs once and stays so. Refused while it runs.
        """
        return await self._do(Action.RUN, uid, by)

    async def pause(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Keep the schedule and run nothing of it; a run in hand finishes first."""
        return await self._do(Action.PAUSE, uid, by)

    async def resume(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Take the schedule up again at the first beat from now; a one-off job is still owed its.

        While it runs, what was asked of it is taken back.
        """
        return await self._do(Action.RESUME, uid, by)

    async def retry(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Bring back what is over: once more, now, and then by its schedule."""
        return await self._do(Action.RETRY, uid, by)

    async def cancel(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Stop it for good. A run in hand is stopped wherever it runs, once its node hears."""
        return await self._do(Action.CANCEL, uid, by)

    async def release(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Take its run from a node that is stuck; it is due again at once, and was no attempt.

        Whatever that node still writes of it is fenced. If it lives, it stops the handler when it
        notices, within seconds.
        """
        return await self._do(Action.RELEASE, uid, by)

    async def enable(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """As resume, for a disabled job."""
        return await self._do(Action.ENABLE, uid, by)

    async def disable(self, uid: UUID, *, by: Actor = PYTHON) -> Job:
        """Take it out until it is enabled; a run in hand finishes first."""
        return await self._do(Action.DISABLE, uid, by)

    async def edit(
        self, uid: UUID, definition: Definition, *, version: int | None = None, by: Actor = PYTHON
    ) -> Job:
        """Give it another definition, if it still is at `version`; a run in hand keeps the old one.

        No beat is lost by an edit and none runs twice; the old definition is kept as a version.
        """
        check_definition(definition)
        await self._check_kind(definition)
        timetable = definition.timetable
        if definition.name is not None:
            timetable = timetable.seeded(definition.name)
        to = replace(definition, timetable=timetable, group=resolved_group(definition))
        await nodes.open_lanes(self._database, [to.kind], to.runs_on)
        await actions.edit(self._database, uid, to, by=by, version=version)
        return await self.get(uid)

    async def delete(self, uid: UUID, *, by: Actor = PYTHON) -> None:
        """Remove it, and stop its run; its name is free at once, and its history stays."""
        await self._act_on_one(Action.DELETE, uid, by)

    async def versions(self, uid: UUID) -> list[Version]:
        """Every definition it has had, the one in force first; of a deleted job too."""
        return await store_actions.versions(self._database, await jobs.id_of(self._database, uid))

    async def restore(self, uid: UUID, version: int, *, by: Actor = PYTHON) -> Job:
        """Edit it back to a definition it had."""
        found = next((each for each in await self.versions(uid) if each.number == version), None)
        if found is None:
            raise NotFound(f"job {uid} has no version {version}")
        if isinstance(found.definition, Unreadable):
            raise Conflict(f"version {version} cannot be restored: {found.definition.error}")
        return await self.edit(uid, found.definition, by=by)

    async def act(
        self,
        action: Action,
        chosen: Filter,
        *,
        by: Actor = PYTHON,
        dry_run: bool = False,
        skip_refused: bool = False,
    ) -> Tally:
        """Do it to every job that is meant, up to 10,000, in one transaction: to all or to none.

        `dry_run` only says what would happen; `skip_refused` leaves out those that refuse.
        """
        if action is Action.EDIT:
            raise InvalidInput("action", "edit takes one job and its definition")
        return await actions.act(
            self._database, action, chosen, by=by, dry_run=dry_run, skip_refused=skip_refused
        )

    async def _do(self, action: Action, uid: UUID, by: Actor) -> Job:
        await self._act_on_one(action, uid, by)
        return await self.get(uid)

    async def _act_on_one(self, action: Action, uid: UUID, by: Actor) -> None:
        """One job is many of one."""
        if not (await self.act(action, Filter.one(uid), by=by)).changed:
            raise NotFound(f"no job {uid}")

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
