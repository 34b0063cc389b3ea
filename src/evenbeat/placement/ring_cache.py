"""The ring as a process keeps it: read once, and then brought up to date by what has changed."""

import asyncio
from datetime import datetime

import numpy as np

from evenbeat.core.balance.model import SLOT_S, seconds_of
from evenbeat.core.balance.ring import IntervalArrays, LoadRing
from evenbeat.core.balance.score import measure_score
from evenbeat.observe import log
from evenbeat.store.balance import load_map
from evenbeat.store.balance.load_map import IntervalCounts, LoadChanges, LoadMap
from evenbeat.store.database.pool import Session


class RingCache:
    """Equal to the rows of the map up to the change it has seen; one user at a time."""

    def __init__(self) -> None:
        self._ring: LoadRing | None = None
        self.seen = 0

    def drop(self) -> None:
        """Trust it no more: what was put on it may not have been written."""
        self._ring = None

    def mark_seen(self, seq: int | None) -> None:
        self.seen = max(self.seen, seq or 0)

    async def load(self, session: Session, now: datetime) -> None:
        """Have a ring for this slot; to be called before the lock is taken, since it takes long."""
        if self._ring is not None and self._ring.start_s == ring_start(now):
            return
        counted = await load_map.read_load_map(session)
        # Half a second for a million jobs, in which others have their turn.
        self._ring = await asyncio.to_thread(build_ring, counted, now)
        self.seen = counted.seq
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
        """The ring with all that has changed since; None: it has to be read anew."""
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


def build_ring(counted: LoadMap, now: datetime) -> LoadRing:
    ring = LoadRing(now)
    ring.add_intervals(to_interval_arrays(counted.plain))
    for footprint, count in counted.other_footprints:
        load = footprint.load(ring.start_s)
        for _ in range(count):
            ring.add(load)
    return ring


def to_interval_arrays(plain: IntervalCounts) -> IntervalArrays:
    columns = (plain.interval_s, plain.phase_s, plain.cost_s, plain.count)
    return IntervalArrays(*(np.array(column, np.int64) for column in columns))
