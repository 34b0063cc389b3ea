"""The warden: looks after runs that are under way, those that take long and those unwanted."""

import time
from collections.abc import Callable
from datetime import timedelta

from evenbeat.engine.runs.recorder import Recorder
from evenbeat.store.database.pool import Database
from evenbeat.store.runs import leases

# Younger runs are stepped over by claims at no cost worth mentioning.
LONG = timedelta(seconds=5)


class RunWatch:
    """Tucks away what has run for long; stops what a person wants stopped or has taken away."""

    def __init__(
        self,
        database: Database,
        recorder: Recorder,
        *,
        node_id: int,
        stop: Callable[[int], None],
    ) -> None:
        self._database = database
        self._recorder = recorder
        self._node_id = node_id
        self._stop = stop
        self._seen_at: dict[int, float] = {}
        self._tucked: set[int] = set()
        self._stopped: set[int] = set()

    async def turn(self) -> None:
        """Once a second or so."""
        await self._tuck()
        if not self._recorder.in_hand:
            return
        unwanted = (
            await leases.find_unwanted_runs(self._database, self._node_id) | await self._taken()
        )
        # Told once: a second time would cut off whatever tidies up after the first.
        for run_id in unwanted - self._stopped:
            self._stop(run_id)
        self._stopped = unwanted

    async def _taken(self) -> set[int]:
        """Runs that were released: another node may have them in hand already.

        Only of those that take long: of the others, their own end finds it out as soon.
        """
        in_hand = self._recorder.in_hand
        long = [in_hand[run_id] for run_id in self._tucked if run_id in in_hand]
        return await leases.find_lost_leases(self._database, long) if long else set()

    async def _tuck(self) -> None:
        now, in_hand = time.monotonic(), self._recorder.in_hand
        self._tucked &= in_hand.keys()
        self._seen_at = {run_id: self._seen_at.get(run_id, now) for run_id in in_hand}
        long = [
            held
            for run_id, held in in_hand.items()
            if now - self._seen_at[run_id] > LONG.total_seconds() and run_id not in self._tucked
        ]
        if long:
            await leases.tuck_runs(self._database, long)
            self._tucked |= {held.run.id for held in long}
