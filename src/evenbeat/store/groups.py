"""Groups: made by their first job, looked at and changed by people, emptied by the engine."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import asyncpg

from evenbeat.core.errors import NotFound
from evenbeat.core.groups import Group
from evenbeat.store.database import Database, Session
from evenbeat.store.statements import load

SQL = load("groups")
# Unparked a few at a time, so that a group without a limit does not flood the due index.
MOST_UNPARKED = 500


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as it is kept."""

    id: int
    key: str
    max_running: int | None
    pace: timedelta | None
    burst: int
    paused_at: datetime | None


async def ensure(session: Session, key: str, group: Group) -> StoredGroup:
    """The group of this key; made with these limits if there is none yet."""
    await ensure_all(session, [replace(group, key=key)])
    return await by_key(session, key)


async def ensure_all(session: Session, named: Sequence[Group]) -> dict[str, int]:
    """The ids of these groups by key; made with these limits where there are none yet."""
    keys, limits = [group.key for group in named], [limits_of(group) for group in named]
    await session.execute(
        SQL["ensure"],
        keys=keys,
        max_running=[each["max_running"] for each in limits],
        paces=[each["pace"] for each in limits],
        bursts=[each["burst"] for each in limits],
    )
    rows = await session.fetch(SQL["ids"], keys=keys)
    return {row["key"]: row["id"] for row in rows}


async def by_key(session: Session, key: str) -> StoredGroup:
    row = await session.fetch_row(SQL["by_key"], key=key)
    if row is None:
        raise NotFound(f"no group {key!r}")
    return group_from(row)


async def change(session: Session, key: str, group: Group) -> int:
    """Give the group other limits; its id comes back, for whoever may fit in now."""
    found = await session.fetch_value(SQL["change"], key=key, **limits_of(group))
    if found is None:
        raise NotFound(f"no group {key!r}")
    return found


async def pause(session: Session, key: str, *, paused: bool) -> int:
    found = await session.fetch_value(SQL["pause"], key=key, paused=paused)
    if found is None:
        raise NotFound(f"no group {key!r}")
    return found


async def unpark(database: Database, group_ids: Collection[int]) -> int:
    """Let in the first of those who wait; says how many."""
    async with database.transaction() as session:
        await session.fetch(SQL["lock"], group_ids=sorted(group_ids))
        return await session.execute(
            SQL["unpark"], group_ids=sorted(group_ids), at_most=MOST_UNPARKED
        )


async def with_room(session: Session) -> list[int]:
    """Groups in which somebody waits although there is room."""
    return [row["id"] for row in await session.fetch(SQL["with_room"])]


async def next_ready_in(session: Session) -> timedelta | None:
    """How long until a group's pace lets the next job in."""
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
    )
