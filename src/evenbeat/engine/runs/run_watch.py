"""The run watch: tucks away runs that take long, and stops runs that are not wanted any more."""

import time
from collections.abc import Callable
from datetime import timedelta

from evenbeat.engine.runs.recorder import Recorder
from evenbeat.store.database.pool import Database
from evenbeat.store.runs import leases

# Claims step over younger runs at a cost too small to notice.
LONG = timedelta(seconds=5)


class RunWatch:
    """A run is unwanted when a person has cancelled it, or has released its lease."""

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
            await leases.find_unwanted_runs(self._database, self._node_id)
            | await self._find_released()
        )
        # Each run is stopped once: a second stop would cut off the handler's cleanup.
        for run_id in unwanted - self._stopped:
            self._stop(run_id)
        self._stopped = unwanted

    async def _find_released(self) -> set[int]:
        """Runs whose lease is gone: another node may run the job already.

        Only long runs are checked: a short one is fenced at its own end just as soon.
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
