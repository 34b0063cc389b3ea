"""Groups as people handle them: look, change what they allow, pause and resume."""

from evenbeat.core.groups import Group
from evenbeat.store import clock, groups
from evenbeat.store.database import Database
from evenbeat.store.groups import StoredGroup


class Groups:
    """The groups of one database. A group is made by the first job that names it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: str) -> StoredGroup:
        return await groups.by_key(self._database, key)

    async def change(self, group: Group) -> StoredGroup:
        """Give it these limits; whoever fits in now comes in at once."""
        await self._let_in(await groups.change(self._database, group.key, group))
        return await self.get(group.key)

    async def pause(self, key: str) -> StoredGroup:
        """Start nothing more in it; what runs finishes."""
        await groups.pause(self._database, key, paused=True)
        return await self.get(key)

    async def resume(self, key: str) -> StoredGroup:
        await self._let_in(await groups.pause(self._database, key, paused=False))
        return await self.get(key)

    async def _let_in(self, group_id: int) -> None:
        await groups.unpark(self._database, [group_id])
        await clock.wake(self._database)
