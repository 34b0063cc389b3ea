"""The claimer: takes due jobs for this node, as many as it can start at once."""

import secrets
from collections.abc import Callable
from datetime import timedelta

from evenbeat.core.model import Claimed
from evenbeat.engine.bell import Bell
from evenbeat.store import leases
from evenbeat.store.database import Database

# A claim is one statement whatever its size; larger ones only hold their locks longer.
LARGEST_CLAIM = 500


class Claimer:
    """Claims no more than there are free places: a lease never waits for one."""

    def __init__(
        self,
        database: Database,
        *,
        node_id: int,
        kind_ids: list[int],
        start: Callable[[Claimed], None],
        free_places: Callable[[], int],
        check_interval: timedelta,
    ) -> None:
        self.bell = Bell()
        self._database = database
        self._node_id = node_id
        self._kind_ids = kind_ids
        self._start = start
        self._free_places = free_places
        self._check_interval = check_interval

    async def turn(self) -> timedelta:
        """Claim once and start what was claimed; says how long to wait until the next turn."""
        places = min(self._free_places(), LARGEST_CLAIM)
        if places == 0:
            return self._check_interval
        claimed = await self._claim(places)
        for each in claimed:
            self._start(each)
        if len(claimed) == places:
            return timedelta(0)
        return await self._until_next_due()

    async def _claim(self, places: int) -> list[Claimed]:
        # Kinds take turns at being first, so that a busy one cannot starve the rest.
        self._kind_ids.append(self._kind_ids.pop(0))
        return await leases.claim_due(
            self._database,
            self._node_id,
            token=secrets.randbits(62),
            places=shares(places, self._kind_ids),
        )

    async def _until_next_due(self) -> timedelta:
        coming = await leases.next_due_in(self._database, self._kind_ids)
        if coming is None:
            return self._check_interval
        return min(max(coming, timedelta(0)), self._check_interval)


def shares(places: int, kind_ids: list[int]) -> dict[int, int]:
    """The places dealt out to the kinds, the earlier ones first."""
    each, rest = divmod(places, len(kind_ids))
    dealt = {kind: each + (turn < rest) for turn, kind in enumerate(kind_ids)}
    return {kind: count for kind, count in dealt.items() if count}
