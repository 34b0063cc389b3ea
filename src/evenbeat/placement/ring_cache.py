"""The ring that a process keeps: read once, then brought up to date by the changes of the map."""

import asyncio
from datetime import datetime

import numpy as np

from evenbeat.core.balance.model import SLOT_S, seconds_of
from evenbeat.core.balance.ring import IntervalArrays, LoadRing
from evenbeat.core.balance.score import measure_score
from evenbeat.observe import log
from evenbeat.store.balance import load_map
from evenbeat.store.balance.load_map import IntervalCounts, LoadMap
from evenbeat.store.balance.unplaced_jobs import LoadChanges
from evenbeat.store.database.pool import Session


class RingCache:
    """Equal to the rows of the map up to the change `seen`. One task uses it at a time."""

    def __init__(self) -> None:
        self._ring: LoadRing | None = None
        self.seen = 0

    def drop(self) -> None:
        """Have the map read again: changes of the ring may not have been written."""
        self._ring = None

    def mark_seen(self, seq: int | None) -> None:
        self.seen = max(self.seen, seq or 0)

    async def load(self, session: Session, now: datetime) -> None:
        """Read a ring for the present slot. Call it before taking the lock: it takes long."""
        if self._ring is not None and self._ring.start_s == ring_start(now):
            return
        stored = await load_map.read_load_map(session)
        # Half a second for a million jobs: in a thread, it does not block the event loop.
        self._ring = await asyncio.to_thread(build_ring, stored, now)
        self.seen = stored.seq
        log.get_logger().info(
            log.MAP_REBUILT,
            job_count=self._ring.job_count,
            distribution_score=round(measure_score(self._ring).score, 3),
        )

    async def reload(self, session: Session, now: datetime) -> LoadRing:
        self.drop()
        await self.load(session, now)
        assert self._ring is not None  # noqa: S101 - just loaded
        return self._ring

    def apply_changes(self, changes: LoadChanges, now: datetime) -> LoadRing | None:
        """The ring with these changes; None: the map must be read again."""
        ring = self._ring
        if ring is None or ring.start_s != ring_start(now) or changes is None:
            return None
        for change in changes:
            load = change.footprint.load(ring.start_s)
            if change.is_added:
                ring.add(load)
            else:
                ring.remove(load)
            self.seen = change.seq
        return ring


def ring_start(now: datetime) -> int:
    return seconds_of(now) // SLOT_S * SLOT_S


def build_ring(stored: LoadMap, now: datetime) -> LoadRing:
    ring = LoadRing(now)
    ring.add_intervals(to_interval_arrays(stored.intervals))
    for footprint, count in stored.other_footprints:
        load = footprint.load(ring.start_s)
        for _ in range(count):
            ring.add(load)
    return ring


def to_interval_arrays(counts: IntervalCounts) -> IntervalArrays:
    columns = (counts.interval_s, counts.phase_s, counts.cost_s, counts.count)
    return IntervalArrays(*(np.array(column, np.int64) for column in columns))
