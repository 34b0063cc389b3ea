"""New jobs on their way to the store: checked, planned, and their JSON written out."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import orjson

from evenbeat.control.jobs.checks import check_dedupe_key, check_definition, check_policy
from evenbeat.core.errors import FieldError, InvalidInput, UnknownKind
from evenbeat.core.jobs import planning
from evenbeat.core.jobs.groups import Group, resolve_group_key
from evenbeat.core.jobs.model import Definition, Job, Pulse
from evenbeat.core.jobs.planning import JobPlan
from evenbeat.core.limits import LARGEST_PAYLOAD, MOST_ADDED_AT_ONCE
from evenbeat.core.ops.audit import Actor
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.jobs import sql_function_checks
from evenbeat.store.jobs.job_inserts import Inserted, NewJob
from evenbeat.store.jobs.new_uids import new_job_uids
from evenbeat.store.jobs.sql_function_checks import CallFaults

MOST_ERRORS = 100
# After so many, others in this process have their turn.
BREATH = 1000

NewJobEntry = Definition | tuple[Definition, str | None]


class NewJobBuilder:
    """Makes newborns of definitions, at one instant; what many of them share is done once."""

    def __init__(
        self,
        registry: Registry,
        known_kinds: Collection[str],
        now: datetime,
        faults: CallFaults | None = None,
        by: Actor | None = None,
    ) -> None:
        """`by`: whose doing it is, where that is to be audited."""
        self._registry = registry
        self._by = by
        # Of SQL functions.
        self._faults = faults or {}
        self._known_kinds = known_kinds
        self.now = now
        self._plans: dict[Timetable, JobPlan] = {}
        # By identity, which is quicker to tell: the definitions outlive this.
        self._planned: dict[int, JobPlan] = {}
        self._policies: set[int] = set()

    def build_new_job(self, uid: UUID, definition: Definition, dedupe_key: str | None) -> NewJob:
        """Raises InvalidInput, naming the field, for what cannot work."""
        if dedupe_key is not None:
            check_dedupe_key(dedupe_key)
        payload = self.check(definition)
        return NewJob(
            uid,
            definition,
            self._plan(definition),
            payload,
            resolved_group(definition) if definition.group else None,
            dedupe_key,
            self._by,
        )

    def check(self, definition: Definition) -> str:
        """Raise InvalidInput unless it may be stored; the payload comes back as JSON."""
        check_definition(definition)
        self._check_policy(definition)
        payload = orjson.dumps(definition.payload)
        if len(payload) > LARGEST_PAYLOAD:
            raise InvalidInput("payload", f"is larger than {LARGEST_PAYLOAD:,} bytes as JSON")
        self._check_kind(definition)
        return payload.decode()

    def _check_policy(self, definition: Definition) -> None:
        if id(definition.policy) not in self._policies:
            check_policy(definition.policy)
            self._policies.add(id(definition.policy))

    def _check_kind(self, definition: Definition) -> None:
        if definition.kind in self._registry:
            self._registry[definition.kind].check(definition.payload)
        elif definition.kind not in self._known_kinds:
            known = sorted({*self._registry, *self._known_kinds})
            raise UnknownKind(definition.kind, known)
        if self._faults:
            self._check_function(definition)

    def _check_function(self, definition: Definition) -> None:
        fault = self._faults.get(sql_function_checks.find_function_call(definition))
        if fault is not None:
            field, _, message = fault.partition(": ")
            raise InvalidInput(f"payload.{field}", message)

    def _plan(self, definition: Definition) -> JobPlan:
        if definition.name is not None:
            return self._plan_of(seeded(definition))
        plan = self._planned.get(id(definition.timetable))
        if plan is None:
            plan = self._planned[id(definition.timetable)] = self._plan_of(definition.timetable)
        return plan

    def _plan_of(self, timetable: Timetable) -> JobPlan:
        plan = self._plans.get(timetable)
        if plan is None:
            plan = self._plans[timetable] = planning.plan_job(timetable, self.now)
        return plan


def seeded(definition: Definition) -> Timetable:
    """The timetable with whatever the job's name decides about it."""
    if definition.name is None:
        return definition.timetable
    return definition.timetable.seeded(definition.name)


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
    return replace(definition.group, key=resolve_group_key(definition.group.key, facts))


def as_stored(definition: Definition, timetable: Timetable) -> Definition:
    """The definition as it is read back: what the group allows is in the group's own row."""
    group = resolved_group(definition)
    return replace(
        definition,
        timetable=timetable,
        payload=same_json(definition.payload),
        labels=same_json(definition.labels) if definition.labels else {},
        group=group and Group(group.key, job_limit=group.job_limit),
        runs_on=tuple(sorted(set(definition.runs_on))),
    )


def same_json(value: Any) -> Any:
    """A value of its own, with lists for tuples: what JSON makes of it."""
    return orjson.loads(orjson.dumps(value))


def inserted_job(newborn: NewJob, born: Inserted) -> Job:
    """The job that was just stored, without reading it."""
    plan = newborn.plan
    return Job(
        id=born.first_id,
        uid=newborn.uid,
        definition=as_stored(newborn.definition, plan.timetable),
        pulse=Pulse(
            plan.state,
            next_beat_at=plan.first_beat,
            due_at=plan.first_beat,
            state_at=born.at,
            resting=plan.state,
        ),
        version=1,
        created_at=born.at,
        updated_at=born.at,
        is_new=True,
    )


def read_entries(entries: Iterable[Any]) -> Iterator[tuple[Definition, str | None]]:
    for place, entry in enumerate(entries):
        if place == MOST_ADDED_AT_ONCE:
            raise InvalidInput("jobs", f"must be at most {MOST_ADDED_AT_ONCE:,} at once")
        pair = cast("Sequence[Any]", entry if isinstance(entry, tuple) else (entry, None))
        if len(pair) != 2 or not isinstance(pair[0], Definition):
            what = "must be a definition, or a pair of one and its dedupe key"
            raise InvalidInput(f"jobs[{place}]", what)
        yield pair[0], pair[1]


async def build_new_jobs(
    items: Sequence[tuple[Definition, str | None]], preparation: NewJobBuilder
) -> list[NewJob]:
    """All of them, or InvalidInput with the first hundred faults, each with its place."""
    prepared: list[NewJob] = []
    faults: list[FieldError] = []
    names: dict[str, int] = {}
    uids = new_job_uids(preparation.now, len(items))
    for place, (definition, key) in enumerate(items):
        try:
            prepared.append(preparation.build_new_job(uids[place], definition, key))
            if definition.name is not None:
                check_name_is_new(definition.name, place, names)
        except InvalidInput as error:
            where = f"jobs[{place}]"
            faults.extend(FieldError(f"{where}.{e.field}", e.message) for e in error.errors)
        if len(faults) >= MOST_ERRORS:
            break
        if place % BREATH == 0:
            await asyncio.sleep(0)
    if faults:
        first, *more = faults[:MOST_ERRORS]
        raise InvalidInput(first.field, first.message, more=more)
    return prepared


def check_name_is_new(name: str, place: int, names: dict[str, int]) -> None:
    if names.setdefault(name, place) != place:
        raise InvalidInput("name", f"is that of jobs[{names[name]}] as well")
