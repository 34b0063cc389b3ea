"""Housekeeping: what the chores removed, when each is due, and which settings are wrong."""

from evenbeat.core.ops.housekeeping import Chore
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import chores, table_storage
from evenbeat.store.ops.table_storage import SettingMismatch


class Housekeeping:
    """The chores of one database. The nodes do them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def status(self) -> list[Chore]:
        """Every chore, with the result of its last round; empty before the first node joined."""
        return await chores.list_chores(self._database)

    async def run_now(self) -> None:
        """Make every chore due from its beginning; the next node that is free does it."""
        await chores.make_all_due(self._database)

    async def drift(self) -> list[SettingMismatch]:
        """Settings of our tables and of the server that differ from what Evenbeat needs."""
        return await table_storage.find_setting_mismatches(self._database)
