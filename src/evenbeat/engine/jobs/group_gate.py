"""The usher: lets parked jobs in when there is room in their group.

A run that ends unparks the next in line by itself. The usher is the net below: for whoever died
between the two, for groups whose pace lets the next one in, and for groups that were resumed.
"""

from datetime import timedelta

from evenbeat.engine.bell import Bell
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import groups

NOTHING_WAITS = timedelta(seconds=1)
SHORTEST = timedelta(milliseconds=5)


class GroupGate:
    """One turn lets in whoever may come in, and says when to look again."""

    def __init__(self, database: Database) -> None:
        # Rung when jobs may have been parked, so that a pace is kept from its first tick on.
        self.bell = Bell()
        self._database = database

    async def turn(self) -> tuple[int, timedelta]:
        """How many were let in, and how long to wait."""
        # Asked first: whatever becomes ready after that is let in below.
        ready_in = await groups.next_ready_in(self._database)
        waiting = await groups.find_groups_with_room(self._database)
        let_in = await groups.unpark_jobs(self._database, waiting) if waiting else 0
        if ready_in is None:
            return let_in, NOTHING_WAITS
        return let_in, min(max(ready_in, SHORTEST), NOTHING_WAITS)
