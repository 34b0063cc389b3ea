"""The placer: gives jobs the phase with the least load, and keeps the map with other processes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from evenbeat.core.balance.footprint import Footprint
from evenbeat.core.balance.model import SLOT_S, Move, seconds_of, slot_of
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.errors import Conflict
from evenbeat.core.time.schedules.base.instants import format_instant
from evenbeat.observe import failpoint, log
from evenbeat.observe.metrics import Metrics
from evenbeat.placement.placement_updates import (
    PlacedJob,
    decide_updates,
    undo_update,
    updates_for_moves,
)
from evenbeat.placement.ring_cache import RingCache, ring_start
from evenbeat.store.balance import load_map, rebalance_candidates, unplaced_jobs
from evenbeat.store.balance.load_map import BalancedJob, MapUpdate
from evenbeat.store.balance.rebalance_candidates import MappedJob
from evenbeat.store.balance.unplaced_jobs import UnplacedJobs
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, DatabaseClock, Session

ON, OBSERVE, OFF = "on", "observe", "off"
# Jobs that are placed in one transaction. It holds the lock of the map for half a second.
CHUNK = 1_000

# Up to so many jobs are first tried without the lock: choosing their phases takes some 50 ms, and
# most of the time no other process places jobs in between.
FEW = 100

FindUnplaced = Callable[[Session, int], Awaitable[UnplacedJobs | None]]


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """The jobs that waited, and those among them that got another phase."""

    jobs: Sequence[BalancedJob]
    placed: Sequence[PlacedJob]


NOTHING_PLACED = PlacementResult((), ())


class Placer:
    """Places the jobs of one database. With `observe` it only keeps the map, with `off` nothing."""

    def __init__(
        self, database: Database, balancing: str = ON, metrics: Metrics | None = None
    ) -> None:
        self._database = database
        self._balancing = balancing
        self._metrics = (metrics or Metrics()).balancing
        self._clock = DatabaseClock(database)
        self._cache = RingCache()
        # There is one ring here and one lock in the database: one transaction at a time.
        self._turn = asyncio.Lock()
        self._requested: set[UUID] = set()
        self._placed: dict[UUID, PlacedJob] = {}

    @property
    def has_map(self) -> bool:
        """Whether the map is kept."""
        return self._balancing != OFF

    @property
    def is_placing(self) -> bool:
        """Whether jobs get the phase with the least load."""
        return self._balancing == ON

    async def place(self, uids: Collection[UUID]) -> dict[UUID, PlacedJob]:
        """Place these stored jobs; returns those that got another phase.

        Callers that wait for their turn at the same time are served by one transaction.
        """
        if not self.has_map:
            return {}
        wanted = set(uids)
        self._requested |= wanted
        async with self._turn:
            requested = sorted(self._requested)
            # The caller before may have placed these jobs as well.
            if not self._requested.isdisjoint(wanted):
                self._requested.clear()
                for start in range(0, len(requested), CHUNK):
                    await self._place(requested[start : start + CHUNK])
            return {uid: self._placed.pop(uid) for uid in wanted if uid in self._placed}

    async def place_waiting(self) -> int:
        """Place every job that waits, whichever process marked it; returns how many there were."""
        total, after = 0, 0
        if not self.has_map or not await unplaced_jobs.is_any_unplaced(self._database):
            return total
        while True:
            async with self._turn:
                jobs = (await self._transact(_find_after(after))).jobs
            total += len(jobs)
            if len(jobs) < CHUNK:
                return total
            # Jobs that other transactions hold keep waiting, until the next call.
            after = jobs[-1].job_id

    async def ring(self) -> LoadRing:
        """The load of the coming week at this moment; where there is no map, from the jobs."""
        now = await self._clock.now()
        if not self.has_map:
            ring = LoadRing(now)
            ring.add_all(each.candidate.load for each in await self.candidates())
            return ring
        async with self._turn, self._dropping_on_error():
            await self._cache.load(self._database, now)
            changes = await unplaced_jobs.read_changes(self._database, self._cache.seen)
            ring = self._cache.apply_changes(changes, now)
            return (ring or await self._cache.reload(self._database, now)).copy()

    async def candidates(self, group: str | None = None) -> list[MappedJob]:
        """Every job of the map, or of one group, as a rebalance reads it."""
        start_s = ring_start(await self._clock.now())
        return await rebalance_candidates.list_candidates(
            self._database, start_s=start_s, group=group, is_mapped=self.has_map
        )

    async def move(
        self,
        session: Session,
        moves: Sequence[Move],
        *,
        expected: Mapping[int, Footprint] | None = None,
    ) -> None:
        """Write a whole plan in the caller's transaction.

        Raises Conflict if a job has changed since; the caller then rolls back. `expected` are the
        footprints that the plan was made with, by job.
        """
        await load_map.lock_load_map(session)
        # In chunks: each statement stays short, and writes soon after the jobs were read.
        ordered = sorted(moves, key=lambda move: move.job)
        for start in range(0, len(ordered), CHUNK):
            await self._move_chunk(session, ordered[start : start + CHUNK], expected)
        self._metrics.count("rebalance", len(moves))

    async def _move_chunk(
        self,
        session: Session,
        moves: Sequence[Move],
        expected: Mapping[int, Footprint] | None,
    ) -> None:
        now = await clock.now(session)
        jobs = await unplaced_jobs.find_balanced_jobs(session, [move.job for move in moves])
        # This takes a tenth of a second: in a thread, it does not block the event loop.
        updates = await asyncio.to_thread(updates_for_moves, jobs, moves, now, expected=expected)
        written = await load_map.write_map_updates(session, updates)
        if len(written.job_ids) != len(updates):
            raise Conflict("jobs of the plan are changing at this moment; try again")

    async def _place(self, uids: Sequence[UUID]) -> None:
        async def find(session: Session, seen: int) -> UnplacedJobs | None:
            return await unplaced_jobs.find_unplaced_among(session, seen, uids)

        result = await self._transact(find, tries_unlocked=len(uids) <= FEW)
        self._placed |= {each.uid: each for each in result.placed}

    async def _transact(
        self, find: FindUnplaced, *, tries_unlocked: bool = False
    ) -> PlacementResult:
        """Lock, read, choose, write.

        With `tries_unlocked` it first tries without the lock: two statements instead of six. That
        works unless another process places jobs at the same moment.
        """
        began = time.monotonic()
        async with self._dropping_on_error():
            await self._cache.load(self._database, await self._clock.now())
            done = await self._place_unlocked(self._database, find) if tries_unlocked else None
            if done is None:
                async with self._database.transaction() as session:
                    await load_map.lock_load_map(session)
                    done = await self._place_locked(session, find)
                    failpoint.reach("before_placement_commit")
        if done.jobs:
            self._metrics.durations.observe(time.monotonic() - began)
        self._log_placements(done.placed)
        return done

    async def _place_unlocked(self, session: Session, find: FindUnplaced) -> PlacementResult | None:
        """None: another process has changed the map, or is about to."""
        unplaced = await find(session, self._cache.seen)
        if unplaced is None:
            return NOTHING_PLACED
        ring = self._cache.apply_changes(unplaced.changes, unplaced.at)
        if ring is None:
            # A map that is read now would be newer than the jobs that were just read.
            return None
        failpoint.reach("before_placement_commit")
        return await self._write(session, unplaced, ring, seen=self._cache.seen)

    async def _place_locked(self, session: Session, find: FindUnplaced) -> PlacementResult:
        unplaced = await find(session, self._cache.seen)
        if unplaced is None:
            return NOTHING_PLACED
        ring = self._cache.apply_changes(unplaced.changes, unplaced.at)
        ring = ring or await self._cache.reload(session, unplaced.at)
        done = await self._write(session, unplaced, ring, seen=None)
        assert done is not None  # noqa: S101 - with the lock, the write is not refused
        deleted = [job.job_id for job in unplaced.jobs if job.version is None]
        if deleted:
            await load_map.remove_from_load_map(session, deleted)
        return done

    async def _write(
        self, session: Session, unplaced: UnplacedJobs, ring: LoadRing, *, seen: int | None
    ) -> PlacementResult | None:
        # Undecided jobs keep waiting.
        decidable = [
            job for job in unplaced.jobs if job.version is not None and not job.is_undecided
        ]
        decide = partial(decide_updates, ring, decidable, unplaced.at, may_place=self.is_placing)
        # One job takes less than a millisecond, a thousand take a second.
        updates = decide() if len(decidable) == 1 else await asyncio.to_thread(decide)
        first_at = min((each.next_beat_at for each in updates if each.next_beat_at), default=None)
        is_soon = first_at is not None and first_at < unplaced.at + clock.SOON
        written = await load_map.write_map_updates(session, updates, seen=seen, wakes=is_soon)
        self._cache.mark_seen(written.seq)
        for each in updates:
            if each.job.job_id not in written.job_ids:
                undo_update(ring, each)
        if not written.is_agreed:
            return None
        kept = [each for each in updates if each.job.job_id in written.job_ids]
        placed = (placed_job_from(each, ring, unplaced.at) for each in kept)
        return PlacementResult(unplaced.jobs, [each for each in placed if each is not None])

    def _log_placements(self, placed: Sequence[PlacedJob]) -> None:
        for each in placed:
            self._metrics.count("new" if each.is_new else "reschedule")
            log.get_logger().info(
                log.JOB_PLACED if each.is_new else log.JOB_REPLACED,
                job_id=str(each.uid),
                slot=format_instant(slot_of(each.next_beat_at)),
                load=each.load,
            )

    @asynccontextmanager
    async def _dropping_on_error(self) -> AsyncGenerator[None]:
        """Any error may leave changes in the ring that were not written: then it is read again."""
        try:
            yield
        except BaseException:
            self._cache.drop()
            raise


def _find_after(after: int) -> FindUnplaced:
    async def find(session: Session, seen: int) -> UnplacedJobs | None:
        return await unplaced_jobs.find_unplaced_jobs(session, seen, after=after, limit=CHUNK)

    return find


def placed_job_from(update: MapUpdate, ring: LoadRing, now: datetime) -> PlacedJob | None:
    """None: the job keeps its phase."""
    job, timetable, next_at = update.job, update.timetable, update.next_beat_at
    if timetable is None or next_at is None or job.uid is None:
        return None
    slot = (seconds_of(next_at) - ring.start_s) // SLOT_S
    load = int(ring.slot[slot]) if slot < len(ring.slot) else 0
    return PlacedJob(job.uid, timetable, next_at, now, job.is_new, load)
