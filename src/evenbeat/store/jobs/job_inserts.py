"""New jobs: stored by the thousand or one at a time, and looked for when the answer was lost."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from evenbeat.core.errors import Conflict
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Definition, Policy
from evenbeat.core.jobs.planning import JobPlan
from evenbeat.core.ops.audit import Actor
from evenbeat.store.database.arrays import drop_all_nulls
from evenbeat.store.database.codes import CODE_OF_STATE
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs.definitions import encode_policy, json_text

SQL = load_statements("jobs/job_inserts")
Shared = TypeVar("Shared")


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job about to be stored: what a person wrote, and what follows from it.

    `group` has its key filled in, and `payload` is JSON. Plans and policies may be shared by
    many: each is then written out once.
    """

    uid: UUID
    definition: Definition
    plan: JobPlan
    payload: str
    group: Group | None = None
    dedupe_key: str | None = None
    # Whose doing it is, where that is to be audited.
    by: Actor | None = None


@dataclass(frozen=True, slots=True)
class Inserted:
    """How many were stored, and the `ids` of those that were, told only where it was asked for."""

    count: int
    first_id: int
    at: datetime
    ids: Mapping[UUID, int] | None = None


async def insert_jobs(
    session: Session,
    newborns: Sequence[NewJob],
    *,
    group_ids: Mapping[str, int] | None = None,
    wakes: bool = False,
    tells: bool = False,
) -> Inserted:
    """Store those whose lane is open and whose dedupe key is free; it `tells` which these are."""
    given = new_job_columns(newborns, group_ids or {})
    statement = SQL["insert_by_key" if given["dedupe_keys"] else "insert"]
    try:
        row = await session.fetch_row(statement, **given, wakes=wakes, tells=tells)
    except asyncpg.UniqueViolationError as error:
        raise Conflict(describe_taken_name(newborns, error)) from None
    assert row is not None  # noqa: S101 - an aggregate always comes
    uids = map(UUID, row["uids"] or ())
    ids = dict(zip(uids, row["ids"] or (), strict=True)) if tells else None
    return Inserted(row["count"], row["first_id"] or 0, row["born_at"], ids)


async def find_dedupe_holders(session: Session, keys: Collection[str]) -> dict[str, UUID]:
    """The live jobs that hold these dedupe keys."""
    rows = await session.fetch(SQL["holders"], keys=sorted(keys))
    return {row["dedupe_key"]: UUID(row["uid"]) for row in rows}


async def is_backend_gone(session: Session, pid: int) -> bool:
    return await session.fetch_value(SQL["is_backend_gone"], pid=pid)


async def find_stored_uids(session: Session, uids: Sequence[UUID]) -> frozenset[UUID]:
    """Which of these jobs are there."""
    return frozenset(row["uid"] for row in await session.fetch(SQL["stored"], uids=list(uids)))


def describe_taken_name(newborns: Sequence[NewJob], error: Any) -> str:
    if len(newborns) == 1:
        return f"there is a job named {newborns[0].definition.name!r} already"
    # As PostgreSQL says it: Key (name)=(…) already exists.
    return f"there is a job of one of these names already: {error.detail}"


def new_job_columns(newborns: Sequence[NewJob], group_ids: Mapping[str, int]) -> dict[str, Any]:
    """The columns that the statement unnests, less what is the same throughout.

    Sending is most of what a batch costs here, and an instant as much as three texts.
    """
    written = [each.definition for each in newborns]
    plans = [each.plan for each in newborns]
    groups = [each.group for each in newborns]
    lanes = [(each.kind, each.runs_on) for each in written]
    usual = plans[0]
    others = [None if plan is usual else plan for plan in plans]
    usual_policy = written[0].policy
    other_policies = [None if each.policy is usual_policy else each.policy for each in written]
    places = {lane: place for place, lane in enumerate(dict.fromkeys(lanes), 1)}
    return {
        "kinds": [kind for kind, _ in places],
        "asked_labels": [json_text(sorted(set(runs_on))) for _, runs_on in places],
        "state": CODE_OF_STATE[usual.state],
        "next_beat_at": usual.first_beat,
        "timetable": json_text(usual.timetable.to_object()),
        "policy": policy_text(usual_policy),
        "lanes": [places[lane] for lane in lanes] if len(places) > 1 else [],
        "uids": [each.uid for each in newborns],
        "states": drop_all_nulls([plan and CODE_OF_STATE[plan.state] for plan in others]),
        "next_beats": drop_all_nulls([plan and plan.first_beat for plan in others]),
        "priorities": drop_all_nulls([each.priority or None for each in written]),
        "group_ids": drop_all_nulls([group and group_ids[group.key] for group in groups]),
        "group_limits": drop_all_nulls([group and group.job_limit for group in groups]),
        "group_keys": drop_all_nulls([group and group.key for group in groups]),
        "dedupe_keys": drop_all_nulls([each.dedupe_key for each in newborns]),
        "names": drop_all_nulls([each.name for each in written]),
        "payloads": [each.payload for each in newborns],
        "timetables": drop_all_nulls(
            encode_shared(others, lambda plan: plan and json_text(plan.timetable.to_object()))
        ),
        "policies": drop_all_nulls(
            encode_shared(other_policies, lambda policy: policy and policy_text(policy))
        ),
        "labels": drop_all_nulls(
            [json_text(each.labels) if each.labels else None for each in written]
        ),
        "wordings": drop_all_nulls(
            [json_text(each.wording) if each.wording else None for each in written]
        ),
        "actors": drop_all_nulls([each.by and each.by.name for each in newborns]),
        "request_ids": drop_all_nulls([each.by and each.by.request_id for each in newborns]),
    }


# Nearly all jobs have one of a few.
@lru_cache(maxsize=1024)
def policy_text(policy: Policy) -> str:
    return json_text(encode_policy(policy))


def encode_shared(
    values: Sequence[Shared], encode: Callable[[Shared], str | None]
) -> list[str | None]:
    """Each value encoded, and one that many share encoded once."""
    known: dict[int, str | None] = {}
    for value in values:
        if id(value) not in known:
            known[id(value)] = encode(value)
    return [known[id(value)] for value in values]
