"""What people do with groups: read them, change their limits, pause and resume them."""

from dataclasses import dataclass, replace
from typing import Any

from evenbeat.core.jobs.groups import Group
from evenbeat.core.limits import LARGEST_PAGE
from evenbeat.core.ops.audit import PYTHON, Actor, NewAuditEntry, find_differences
from evenbeat.observe import log
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import groups
from evenbeat.store.jobs.groups import GroupMember, GroupUsage, StoredGroup
from evenbeat.store.ops import audit

MOST_HOLDERS = LARGEST_PAGE


@dataclass(frozen=True, slots=True)
class GroupPage:
    """Some groups in the order of their keys, and how many there are."""

    groups: list[GroupUsage]
    total: int


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """A group, the jobs that have a place in it, and some that wait for one, in turn."""

    occupied: GroupUsage
    holders: list[GroupMember]
    waiting: list[GroupMember]


class Groups:
    """The groups of one database. The first job that names a group creates it, or a person does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, *, search: str | None = None, limit: int = 50, offset: int = 0
    ) -> GroupPage:
        found = await groups.list_groups(self._database, search=search, limit=limit, offset=offset)
        return GroupPage(found, await groups.count_groups(self._database, search=search))

    async def get(self, key: str) -> StoredGroup:
        return await groups.find_group(self._database, key)

    async def occupied(self, key: str) -> GroupUsage:
        """The group, with how many of its jobs run and wait."""
        return await groups.find_group_usage(self._database, key)

    async def members(self, key: str, *, limit: int = 50, offset: int = 0) -> GroupMembers:
        """Up to 250 jobs that have a place, and a page of those that wait."""
        found = await self.occupied(key)
        group_id = found.group.id
        return GroupMembers(
            found,
            await groups.list_permit_holders(self._database, group_id, limit=MOST_HOLDERS),
            await groups.list_waiting_jobs(self._database, group_id, limit=limit, offset=offset),
        )

    async def put(self, group: Group, *, by: Actor = PYTHON) -> StoredGroup:
        """Create the group of this key with these limits, or change its limits.

        Waiting jobs for which there is room now start at once. Running jobs go on.
        """
        async with self._database.transaction() as session:
            is_new = bool(await groups.insert_groups(session, [group]))
            before = await groups.lock_group(session, group.key)
            if not is_new:
                await groups.change_limits(session, group)
            after = await groups.find_group(session, group.key)
            note = group_note("put_group", None if is_new else before, after)
            await audit.write_audit(session, [note], by=by)
        await self._unpark(after)
        log_group_change(note, by)
        return replace(after, is_new=is_new)

    async def pause(self, key: str, *, by: Actor = PYTHON) -> StoredGroup:
        """Start no more jobs of the group. Running jobs finish."""
        return await self._switch(key, by, paused=True)

    async def resume(self, key: str, *, by: Actor = PYTHON) -> StoredGroup:
        after = await self._switch(key, by, paused=False)
        await self._unpark(after)
        return after

    async def _switch(self, key: str, by: Actor, *, paused: bool) -> StoredGroup:
        async with self._database.transaction() as session:
            before = await groups.lock_group(session, key)
            await groups.pause_group(session, key, paused=paused)
            after = await groups.find_group(session, key)
            note = group_note("pause_group" if paused else "resume_group", before, after)
            await audit.write_audit(session, [note], by=by)
        log_group_change(note, by)
        return after

    async def _unpark(self, group: StoredGroup) -> None:
        await groups.unpark_jobs(self._database, [group.id])
        await clock.wake(self._database)


def group_note(action: str, before: StoredGroup | None, after: StoredGroup) -> NewAuditEntry:
    was, became = find_differences(group_facts(before) if before else {}, group_facts(after))
    return NewAuditEntry(action, was, {"group": after.key, **became})


def group_facts(group: StoredGroup) -> dict[str, Any]:
    """The facts about a group that the audit records."""
    return {
        "max_running": group.max_running,
        "rate": group.rate and str(group.rate),
        "is_paused": group.paused_at is not None,
    }


def log_group_change(note: NewAuditEntry, by: Actor) -> None:
    log.get_logger().info(
        log.GROUP_CHANGED, group=note.after["group"], action=note.action, actor=by.name
    )
