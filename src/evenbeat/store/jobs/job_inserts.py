"""The statements that store new jobs, one at a time or thousands at once."""

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import orjson

from evenbeat.core.errors import Conflict
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Definition, Policy
from evenbeat.core.jobs.planning import JobPlan
from evenbeat.core.ops.audit import Actor
from evenbeat.store.database.codes import CODE_OF_STATE
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs import groups
from evenbeat.store.jobs.definitions import encode_policy
from evenbeat.store.jobs.groups import StoredGroup

SQL = load_statements("jobs/job_inserts")
# The random bits of a UUIDv7: twelve after the version, 62 after the variant.
FREE_BITS = (0xFFF << 64) | ((1 << 62) - 1)
RANDOM_BYTES = 10
Shared = TypeVar("Shared")
# Jobs in one statement. Larger ones would block the event loop for a fraction of a second.
CHUNK = 10_000
# Another caller may take a dedupe key first, and its job may have ended when we look for it.
TRIES = 10


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job about to be stored: what a person wrote, and what was planned for it.

    `group` has its key filled in, and `payload` is JSON. Many jobs may share a plan or a policy:
    each is then encoded once.
    """

    uid: UUID
    definition: Definition
    plan: JobPlan
    payload: str
    group: Group | None = None
    dedupe_key: str | None = None
    # Who added it, if the audit is to record that.
    by: Actor | None = None


@dataclass(frozen=True, slots=True)
class Inserted:
    """How many jobs one statement stored, and their `ids` by uid, if these were asked for."""

    count: int
    first_id: int
    at: datetime
    ids: Mapping[UUID, int] = field(default_factory=dict[UUID, int])


@dataclass(slots=True)
class InsertResult:
    """What became of new jobs.

    It is filled in while the statements run. If only the answer to the commit is lost, it is
    therefore complete.
    """

    # None if the answer was lost, and if every job was left out for the holder of its key.
    inserted: Inserted | None = None
    # By dedupe key: the live jobs that hold it.
    holders: dict[str, UUID] = field(default_factory=dict[str, UUID])
    # By key: the stored groups that the jobs name.
    groups: dict[str, StoredGroup] = field(default_factory=dict[str, StoredGroup])


async def insert_jobs(
    session: Session,
    new_jobs: Sequence[NewJob],
    *,
    group_ids: Mapping[str, int] | None = None,
    wakes: bool = False,
    returns_ids: bool = False,
) -> Inserted:
    """Store the jobs whose lane is open and whose dedupe key is free, in one statement."""
    given = new_job_columns(new_jobs, group_ids or {})
    statement = SQL["insert_by_key" if given["dedupe_keys"] else "insert"]
    try:
        row = await session.fetch_row(statement, **given, wakes=wakes, returns_ids=returns_ids)
    except asyncpg.UniqueViolationError as error:
        raise Conflict(describe_taken_name(new_jobs, error)) from None
    assert row is not None  # noqa: S101 - an aggregate always returns a row
    ids = dict(zip(map(UUID, row["uids"] or ()), row["ids"] or (), strict=True))
    return Inserted(row["count"], row["first_id"] or 0, row["inserted_at"], ids)


async def insert_all(
    session: Session, new_jobs: Sequence[NewJob], result: InsertResult, *, wakes: bool
) -> None:
    """Store all of these jobs in a transaction, except those whose dedupe key a live job holds.

    Every transaction that adds jobs locks in the same order: lanes, groups, keys, names. So two of
    them never wait for each other in a circle.
    """
    await open_lanes(session, ((new.definition.kind, new.definition.runs_on) for new in new_jobs))
    # The first job that names a group sets its limits.
    named = {new.group.key: new.group for new in reversed(new_jobs) if new.group}
    result.groups = await groups.ensure_groups(session, list(named.values())) if named else {}
    left = new_jobs
    if any(new.dedupe_key or new.definition.name for new in left):
        left = sorted(left, key=lock_order)
    for _ in range(TRIES):
        left = await insert_in_chunks(session, left, result, wakes=wakes)
        if not left:
            return
        held = await find_dedupe_holders(session, [new.dedupe_key or "" for new in left])
        result.holders |= held
        # The other keys were held by jobs that have ended since: these are tried again.
        left = [new for new in left if new.dedupe_key not in held]
        if not left:
            return
    raise Conflict(f"the jobs of dedupe key {left[0].dedupe_key!r} come and go; add it again")


async def insert_in_chunks(
    session: Session, new_jobs: Sequence[NewJob], result: InsertResult, *, wakes: bool
) -> list[NewJob]:
    """Store the jobs; returns those whose dedupe key is held."""
    group_ids = {key: group.id for key, group in result.groups.items()}
    held: list[NewJob] = []
    for start in range(0, len(new_jobs), CHUNK):
        chunk = new_jobs[start : start + CHUNK]
        is_last = start + CHUNK >= len(new_jobs)
        # Jobs with keys come first, so that the first of the chunk tells.
        has_keys = chunk[0].dedupe_key is not None
        inserted = await insert_jobs(
            session, chunk, group_ids=group_ids, wakes=wakes and is_last, returns_ids=has_keys
        )
        result.inserted = inserted
        if has_keys:
            held += [new for new in chunk if new.uid not in inserted.ids]
        elif inserted.count != len(chunk):
            raise Conflict("a lane of these jobs was closed meanwhile; add them again")
    return held


def lock_order(new_job: NewJob) -> tuple[bool, str, bool, str]:
    key, name = new_job.dedupe_key, new_job.definition.name
    return key is None, key or "", name is None, name or ""


async def open_lanes(session: Session, lanes: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Open the lanes that are not open yet: pairs of a kind and the labels it runs on."""
    wanted = {(kind, encode_labels(runs_on)) for kind, runs_on in lanes}
    await session.execute(
        SQL["open_lanes"],
        kinds=[kind for kind, _ in wanted],
        asked_labels=[labels for _, labels in wanted],
    )


async def find_dedupe_holders(session: Session, keys: Collection[str]) -> dict[str, UUID]:
    """The live jobs that hold these dedupe keys."""
    rows = await session.fetch(SQL["find_dedupe_holders"], keys=sorted(keys))
    return {row["dedupe_key"]: UUID(row["uid"]) for row in rows}


def describe_taken_name(new_jobs: Sequence[NewJob], error: Any) -> str:
    if len(new_jobs) == 1:
        return f"there is a job named {new_jobs[0].definition.name!r} already"
    # The detail in PostgreSQL's words: Key (name)=(…) already exists.
    return f"there is a job of one of these names already: {error.detail}"


def new_job_columns(new_jobs: Sequence[NewJob], group_ids: Mapping[str, int]) -> dict[str, Any]:
    """The arrays that the statement unnests.

    Sending them is most of the cost of a batch, and one instant costs as much as three texts. So
    the plan and the policy of the first job are sent once, and null stands for them in the arrays.
    """
    written = [new.definition for new in new_jobs]
    first_plan, first_policy = new_jobs[0].plan, written[0].policy
    plans = [None if new.plan is first_plan else new.plan for new in new_jobs]
    policies = [None if each.policy is first_policy else each.policy for each in written]
    in_groups = [new.group for new in new_jobs]
    lanes = [(each.kind, each.runs_on) for each in written]
    places = {lane: place for place, lane in enumerate(dict.fromkeys(lanes), 1)}
    optional: dict[str, list[Any]] = {
        "states": [plan and CODE_OF_STATE[plan.state] for plan in plans],
        "next_beats": [plan and plan.first_beat for plan in plans],
        "priorities": [each.priority or None for each in written],
        "group_ids": [group and group_ids[group.key] for group in in_groups],
        "group_limits": [group and group.job_limit for group in in_groups],
        "group_keys": [group and group.key for group in in_groups],
        "dedupe_keys": [new.dedupe_key for new in new_jobs],
        "names": [each.name for each in written],
        "timetables": encode_shared(plans, encode_timetable),
        "policies": encode_shared(policies, encode_policy_text),
        "labels": [encode_object(each.labels) for each in written],
        "wordings": [encode_object(each.wording) for each in written],
        "actors": [new.by and new.by.name for new in new_jobs],
        "request_ids": [new.by and new.by.request_id for new in new_jobs],
    }
    return {
        "kinds": [kind for kind, _ in places],
        "asked_labels": [encode_labels(runs_on) for _, runs_on in places],
        "state": CODE_OF_STATE[first_plan.state],
        "next_beat_at": first_plan.first_beat,
        "timetable": encode_timetable(first_plan),
        "policy": encode_policy_text(first_policy),
        "lanes": [places[lane] for lane in lanes] if len(places) > 1 else [],
        "uids": [new.uid for new in new_jobs],
        "payloads": [new.payload for new in new_jobs],
    } | {
        # An array of nulls only is sent as an empty one: unnest pads it with nulls.
        name: [] if values.count(None) == len(values) else values
        for name, values in optional.items()
    }


def encode_timetable(plan: JobPlan) -> str:
    return orjson.dumps(plan.timetable.to_object()).decode()


# Nearly all jobs have one of a few policies.
@lru_cache(maxsize=1024)
def encode_policy_text(policy: Policy) -> str:
    return orjson.dumps(encode_policy(policy)).decode()


def encode_object(value: dict[str, Any]) -> str | None:
    return orjson.dumps(value).decode() if value else None


def encode_labels(runs_on: Iterable[str]) -> str:
    return orjson.dumps(sorted(set(runs_on))).decode()


def encode_shared(
    values: Sequence[Shared | None], encode: Callable[[Shared], str]
) -> list[str | None]:
    """Each value encoded. A value that many jobs share is encoded once."""
    known: dict[int, str | None] = {}
    for value in values:
        if id(value) not in known:
            known[id(value)] = None if value is None else encode(value)
    return [known[id(value)] for value in values]


def new_job_uid(now: datetime) -> UUID:
    [uid] = new_job_uids(now, 1)
    return uid


def new_job_uids(now: datetime, count: int) -> list[UUID]:
    """So many UUIDv7, in their order.

    They sort by the time at which they were made: the rows of new jobs then lie side by side in
    the index.
    """
    milliseconds = int(now.timestamp() * 1000)
    base = (milliseconds << 80) | (7 << 76) | (0b10 << 62)
    # Drawn at once: drawing for each id takes longer than all the rest.
    drawn = secrets.token_bytes(RANDOM_BYTES * count)
    starts = range(0, len(drawn), RANDOM_BYTES)
    chances = (int.from_bytes(drawn[at : at + RANDOM_BYTES]) for at in starts)
    values = sorted(base | (chance & FREE_BITS) for chance in chances)
    return [UUID(int=value) for value in values]
