"""The claimer: takes due jobs for this node, as many as it can start at once."""

import secrets
import time
from collections.abc import Callable, Collection
from datetime import timedelta

from evenbeat.core.outcome import HandedBack
from evenbeat.engine.bell import Bell
from evenbeat.engine.recorder import Ended, write
from evenbeat.store import leases
from evenbeat.store.database import Database
from evenbeat.store.leases import Held

# A claim is one statement whatever its size; larger ones only hold their locks longer.
LARGEST_CLAIM = 500
# Something is due that cannot be had, since its row is locked: worth a pause, not a spin.
DENIED = timedelta(milliseconds=50)
# A statement whose answer was lost may still be under way; the server ends it after 30 seconds.
LAST_DOUBT = 35.0
UNHEARD = HandedBack("the answer to the claim was lost")


class Claimer:
    """Claims no more than there are free places: a lease never waits for one."""

    def __init__(
        self,
        database: Database,
        *,
        node_id: int,
        kind_ids: list[int],
        start: Callable[[Held], None],
        free_places: Callable[[], int],
        in_hand: Callable[[], Collection[int]],
        check_interval: timedelta,
    ) -> None:
        self.bell = Bell()
        self._database = database
        self._node_id = node_id
        self._kind_ids = kind_ids
        self._start = start
        self._free_places = free_places
        self._in_hand = in_hand
        self._check_interval = check_interval
        self._is_in_doubt = False
        self._last_look_at: float | None = None

    async def turn(self) -> timedelta:
        """Claim once and start what was claimed; says how long to wait until the next turn."""
        await self._look_after_claims()
        places = min(self._free_places(), LARGEST_CLAIM)
        if places == 0:
            return self._check_interval
        claimed = await self._claim(places)
        for each in claimed:
            self._start(each)
        if len(claimed) == places:
            return timedelta(0)
        return await self._until_next_due(shortest=timedelta(0) if claimed else DENIED)

    async def disown(self) -> None:
        """Hand back what this node holds by the database's word and does not know of."""
        known = set(self._in_hand())
        held = await leases.in_hand(self._database, self._node_id)
        unknown = [each for each in held if each.run.id not in known]
        if unknown:
            await write(self._database, [Ended(each, UNHEARD, None) for each in unknown])

    async def _look_after_claims(self) -> None:
        """A claim that was made but never answered has to be found, else nobody runs the job."""
        if self._is_in_doubt:
            await self.disown()
            self._is_in_doubt = False
            self._last_look_at = time.monotonic() + LAST_DOUBT
        elif self._last_look_at is not None and time.monotonic() >= self._last_look_at:
            await self.disown()
            self._last_look_at = None

    async def _claim(self, places: int) -> list[Held]:
        # Kinds take turns at being first, so that a busy one cannot starve the rest.
        self._kind_ids.append(self._kind_ids.pop(0))
        self._is_in_doubt = True
        claimed = await leases.claim_due(
            self._database,
            self._node_id,
            token=secrets.randbits(62),
            places=shares(places, self._kind_ids),
        )
        self._is_in_doubt = False
        return claimed

    async def _until_next_due(self, *, shortest: timedelta) -> timedelta:
        longest = self._check_interval
        coming = await leases.next_due_in(self._database, self._kind_ids, horizon=longest)
        if coming is None:
            return longest
        return coming if coming > timedelta(0) else shortest


def shares(places: int, kind_ids: list[int]) -> dict[int, int]:
    """The places dealt out to the kinds, the earlier ones first."""
    each, rest = divmod(places, len(kind_ids))
    dealt = {kind: each + (turn < rest) for turn, kind in enumerate(kind_ids)}
    return {kind: count for kind, count in dealt.items() if count}
