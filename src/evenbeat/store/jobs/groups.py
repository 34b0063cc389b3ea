"""Reads and writes groups, and unparks the jobs that wait for a place in one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.groups import Group, Rate
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs.listing import like_pattern

SQL = load_statements("jobs/groups")
# Jobs unparked at once. More would flood the due index when a group without a limit is resumed.
MOST_UNPARKED = 500


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as it is stored."""

    id: int
    key: str
    max_running: int | None
    pace: timedelta | None
    burst: int
    paused_at: datetime | None
    # When its pace allows the next start.
    ready_at: datetime | None
    created_at: datetime
    limits_at: datetime
    is_new: bool = False

    @property
    def rate(self) -> Rate | None:
        return None if self.pace is None else Rate.paced(self.pace, self.burst)


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """A group, how many of its jobs run and wait, and since when the first waiting one is due."""

    group: StoredGroup
    running: int
    waiting: int
    waiting_since: datetime | None


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A job that has a place in a group since it started, or waits for one since it is due."""

    uid: UUID
    name: str | None
    since: datetime
    node: str | None


async def ensure_group(session: Session, key: str, group: Group) -> StoredGroup:
    """The group of this key; it is created with these limits if there is none yet."""
    return (await ensure_groups(session, [replace(group, key=key)]))[key]


async def ensure_groups(session: Session, named: Sequence[Group]) -> dict[str, StoredGroup]:
    """These groups by key; those that do not exist are created with these limits."""
    await insert_groups(session, named)
    rows = await session.fetch(SQL["by_keys"], keys=[group.key for group in named])
    return {row["key"]: group_from(row) for row in rows}


async def insert_groups(session: Session, named: Sequence[Group]) -> int:
    """Create the groups that do not exist yet; returns how many."""
    limits = [limits_of(group) for group in named]
    return await session.execute(
        SQL["ensure"],
        keys=[group.key for group in named],
        max_running=[each["max_running"] for each in limits],
        paces=[each["pace"] for each in limits],
        bursts=[each["burst"] for each in limits],
    )


async def list_groups(
    session: Session, *, search: str | None, limit: int, offset: int
) -> list[GroupUsage]:
    rows = await session.fetch(
        SQL["page"], keys=None, search=search and like_pattern(search), limit=limit, offset=offset
    )
    return [usage_from(row) for row in rows]


async def count_groups(session: Session, *, search: str | None) -> int:
    return await session.fetch_value(SQL["count"], search=search and like_pattern(search))


async def find_group_usage(session: Session, key: str) -> GroupUsage:
    row = await session.fetch_row(SQL["page"], keys=[key], search=None, limit=1, offset=0)
    if row is None:
        raise NotFound(f"no group {key!r}")
    return usage_from(row)


async def list_permit_holders(session: Session, group_id: int, *, limit: int) -> list[GroupMember]:
    """The jobs that have a place in the group, the longest first."""
    rows = await session.fetch(SQL["holders"], group_id=group_id, limit=limit)
    return [GroupMember(row["uid"], row["name"], row["since"], row["node"]) for row in rows]


async def list_waiting_jobs(
    session: Session, group_id: int, *, limit: int, offset: int
) -> list[GroupMember]:
    """The jobs that wait for a place, in the order in which they will get one."""
    rows = await session.fetch(SQL["waiting"], group_id=group_id, limit=limit, offset=offset)
    return [GroupMember(row["uid"], row["name"], row["since"], row["node"]) for row in rows]


async def lock_group(session: Session, key: str) -> StoredGroup:
    """Read the group and lock it until the end of the transaction."""
    row = await session.fetch_row(SQL["lock_key"], key=key)
    if row is None:
        raise NotFound(f"no group {key!r}")
    return group_from(row)


async def find_group(session: Session, key: str) -> StoredGroup:
    row = await session.fetch_row(SQL["by_key"], key=key)
    if row is None:
        raise NotFound(f"no group {key!r}")
    return group_from(row)


async def change_limits(session: Session, group: Group) -> None:
    """Give a locked group other limits."""
    await session.execute(SQL["change"], key=group.key, **limits_of(group))


async def pause_group(session: Session, key: str, *, paused: bool) -> None:
    await session.execute(SQL["pause"], key=key, paused=paused)


async def unpark_jobs(database: Database, group_ids: Collection[int]) -> int:
    """Unpark the first waiting jobs, as many as there is room for; returns how many."""
    async with database.transaction() as session:
        await session.fetch(SQL["lock"], group_ids=sorted(group_ids))
        return await session.execute(
            SQL["unpark"], group_ids=sorted(group_ids), at_most=MOST_UNPARKED
        )


async def find_groups_with_room(session: Session) -> list[int]:
    """Groups in which a job waits although there is room."""
    return [row["id"] for row in await session.fetch(SQL["with_room"])]


async def next_ready_in(session: Session) -> timedelta | None:
    """How long until the pace of a group allows the next start."""
    seconds = await session.fetch_value(SQL["next_ready_in"])
    return None if seconds is None else timedelta(seconds=seconds)


def limits_of(group: Group) -> dict[str, object]:
    return {
        "max_running": group.max_running,
        "pace": group.rate and group.rate.pace,
        "burst": group.rate.count if group.rate else 1,
    }


def group_from(row: asyncpg.Record) -> StoredGroup:
    return StoredGroup(
        id=row["id"],
        key=row["key"],
        max_running=row["max_running"],
        pace=row["pace"],
        burst=row["burst"],
        paused_at=row["paused_at"],
        ready_at=row["ready_at"],
        created_at=row["created_at"],
        limits_at=row["limits_at"],
    )


def usage_from(row: asyncpg.Record) -> GroupUsage:
    return GroupUsage(group_from(row), row["running"], row["waiting"], row["waiting_since"])
