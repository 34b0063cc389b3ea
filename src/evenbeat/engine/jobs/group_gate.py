"""The group gate: lets parked jobs in when there is room in their group.

A run that ends lets the next job of its group in. The gate does the rest: it lets in the jobs of
groups whose node died in between, whose pace allows the next one, or that were resumed.
"""

from datetime import timedelta

from evenbeat.engine.bell import Bell
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import groups

NOTHING_WAITS = timedelta(seconds=1)
SHORTEST = timedelta(milliseconds=5)


class GroupGate:
    """One turn lets in all parked jobs that may run, and says when the next turn is due."""

    def __init__(self, database: Database) -> None:
        # Rung when jobs may have been parked: the gate then learns when their pace allows them.
        self.bell = Bell()
        self._database = database

    async def turn(self) -> tuple[int, timedelta]:
        """How many jobs were let in, and how long to wait."""
        # Asked first: a group that becomes ready after this is let in below.
        ready_in = await groups.next_ready_in(self._database)
        waiting = await groups.find_groups_with_room(self._database)
        let_in = await groups.unpark_jobs(self._database, waiting) if waiting else 0
        if ready_in is None:
            return let_in, NOTHING_WAITS
        return let_in, min(max(ready_in, SHORTEST), NOTHING_WAITS)
