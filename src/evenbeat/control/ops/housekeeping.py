"""Housekeeping as people see it: what was removed, when it will be looked again, what is amiss."""

from evenbeat.core.ops.housekeeping import Chore
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import chores, table_storage
from evenbeat.store.ops.table_storage import SettingMismatch


class Housekeeping:
    """The chores of one database; nodes do them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def status(self) -> list[Chore]:
        """Every chore, with what its last round came to; empty before the first node joined."""
        return await chores.list_chores(self._database)

    async def run_now(self) -> None:
        """Have every chore done from its beginning, by whichever node looks next."""
        await chores.make_all_due(self._database)

    async def drift(self) -> list[SettingMismatch]:
        """Settings of our tables and their server that are not as they should be."""
        return await table_storage.find_setting_mismatches(self._database)
