"""Groups as people handle them: look, change what they allow, pause and resume."""

from dataclasses import dataclass, replace
from typing import Any

from evenbeat.core.jobs.groups import Group
from evenbeat.core.ops.audit import PYTHON, Actor, Note, difference
from evenbeat.observe import log
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import groups
from evenbeat.store.jobs.groups import Member, Occupied, StoredGroup
from evenbeat.store.ops import audit

MOST_HOLDERS = 250


@dataclass(frozen=True, slots=True)
class GroupList:
    """Some groups in the order of their keys, and how many there are."""

    groups: list[Occupied]
    total: int


@dataclass(frozen=True, slots=True)
class Members:
    """A group, who has a place in it, and some of those who wait for one, in turn."""

    occupied: Occupied
    holders: list[Member]
    waiting: list[Member]


class Groups:
    """The groups of one database. A group is made by the first job that names it, or by hand."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, *, search: str | None = None, limit: int = 50, offset: int = 0
    ) -> GroupList:
        found = await groups.page(self._database, search=search, limit=limit, offset=offset)
        return GroupList(found, await groups.count(self._database, search=search))

    async def get(self, key: str) -> StoredGroup:
        return await groups.by_key(self._database, key)

    async def occupied(self, key: str) -> Occupied:
        """With how many run in it and wait for it."""
        return await groups.occupied(self._database, key)

    async def members(self, key: str, *, limit: int = 50, offset: int = 0) -> Members:
        """Up to 250 who have a place, and a page of those who wait."""
        found = await self.occupied(key)
        group_id = found.group.id
        return Members(
            found,
            await groups.holders(self._database, group_id, limit=MOST_HOLDERS),
            await groups.waiting(self._database, group_id, limit=limit, offset=offset),
        )

    async def put(self, group: Group, *, by: Actor = PYTHON) -> StoredGroup:
        """The group of this key is to have these limits: made, or changed.

        Whoever fits in now comes in at once; whoever runs in it goes on.
        """
        async with self._database.transaction() as session:
            is_new = bool(await groups.make(session, [group]))
            before = await groups.locked(session, group.key)
            if not is_new:
                await groups.change(session, group)
            after = await groups.by_key(session, group.key)
            note = noted("put_group", None if is_new else before, after)
            await audit.write(session, [note], by=by)
        await self._let_in(after)
        tell(note, by)
        return replace(after, is_new=is_new)

    async def pause(self, key: str, *, by: Actor = PYTHON) -> StoredGroup:
        """Start nothing more in it; what runs finishes."""
        return await self._switch(key, by, paused=True)

    async def resume(self, key: str, *, by: Actor = PYTHON) -> StoredGroup:
        after = await self._switch(key, by, paused=False)
        await self._let_in(after)
        return after

    async def _switch(self, key: str, by: Actor, *, paused: bool) -> StoredGroup:
        async with self._database.transaction() as session:
            before = await groups.locked(session, key)
            await groups.pause(session, key, paused=paused)
            after = await groups.by_key(session, key)
            note = noted("pause_group" if paused else "resume_group", before, after)
            await audit.write(session, [note], by=by)
        tell(note, by)
        return after

    async def _let_in(self, group: StoredGroup) -> None:
        await groups.unpark(self._database, [group.id])
        await clock.wake(self._database)


def noted(action: str, before: StoredGroup | None, after: StoredGroup) -> Note:
    was, became = difference(facts(before) if before else {}, facts(after))
    return Note(action, was, {"group": after.key, **became})


def facts(group: StoredGroup) -> dict[str, Any]:
    """What the audit tells of a group."""
    return {
        "max_running": group.max_running,
        "rate": group.rate and str(group.rate),
        "is_paused": group.paused_at is not None,
    }


def tell(note: Note, by: Actor) -> None:
    log.get_logger().info(
        log.GROUP_CHANGED, group=note.after["group"], action=note.action, actor=by.name
    )
