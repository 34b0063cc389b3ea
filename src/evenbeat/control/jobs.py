"""Jobs as people handle them: add one, look at one."""

from dataclasses import replace
from uuid import UUID

from evenbeat.core import planning
from evenbeat.core.errors import InvalidInput
from evenbeat.core.ids import new_job_uid
from evenbeat.core.model import Definition, Job
from evenbeat.core.payload import check_json, check_text
from evenbeat.core.registry import Registry
from evenbeat.observe import log
from evenbeat.store import clock, jobs, nodes
from evenbeat.store.database import Database

LONGEST_NAME = 200
HIGHEST_PRIORITY = 100


class Jobs:
    """The jobs of one database."""

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._registry = registry

    async def add(self, definition: Definition) -> Job:
        """Plan and store a new job, and wake the nodes. What comes back is on disk."""
        check_definition(definition)
        await self._check_kind(definition)
        if definition.name is not None:
            definition = replace(definition, timetable=definition.timetable.seeded(definition.name))
        now = await clock.now(self._database)
        first_beat = planning.first_beat(definition.timetable, now)
        if first_beat is None:
            raise InvalidInput("schedule", "has no beat left: nothing would ever run")
        uid = new_job_uid(now)
        await jobs.insert(
            self._database,
            replace(definition, timetable=definition.timetable.planned_at(now)),
            uid=uid,
            state=planning.initial_state(definition),
            first_beat=first_beat,
        )
        await clock.wake(self._database)
        log.get_logger().info(log.JOB_CREATED, job_id=str(uid), kind=definition.kind)
        return await self.get(uid)

    async def get(self, uid: UUID) -> Job:
        return await jobs.by_uid(self._database, uid)

    async def _check_kind(self, definition: Definition) -> None:
        """A kind is known if this process or any node ever served it."""
        if definition.kind in self._registry:
            self._registry[definition.kind].check(definition.payload)
            return
        known = {*self._registry, *await nodes.known_kinds(self._database)}
        if definition.kind not in known:
            choices = ", ".join(sorted(known))
            raise InvalidInput("kind", f"no kind {definition.kind!r}; known kinds: {choices}")


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
