"""Placement: puts jobs where the load is least, and keeps the map with all other processes."""

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
from evenbeat.store.balance import load_map
from evenbeat.store.balance.load_map import JobToPlace, MappedJob, PlacementUpdate, UnplacedJobs
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, Session

ON, OBSERVE, OFF = "on", "observe", "off"
# In one transaction: half a second in which nobody else places.
CHUNK = 1_000

# Chosen for in some 50 ms: most of the time nobody else places meanwhile.
FEW = 100

FindUnplaced = Callable[[Session, int], Awaitable[UnplacedJobs | None]]


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """The jobs that were found, and those among them that got another phase."""

    jobs: Sequence[JobToPlace]
    placed: Sequence[PlacedJob]


NOTHING_PLACED = PlacementResult((), ())


class Placer:
    """The map of one database: with `observe` only kept, and with `off` not even that."""

    def __init__(
        self, database: Database, balancing: str = ON, metrics: Metrics | None = None
    ) -> None:
        self._database = database
        self._balancing = balancing
        self._metrics = (metrics or Metrics()).balancing
        self._watch = clock.DatabaseClock(database)
        self._kept = RingCache()
        # The ring is one, and so is the lock in the database: one transaction at a time.
        self._turn = asyncio.Lock()
        self._asked: set[UUID] = set()
        self._answers: dict[UUID, PlacedJob] = {}

    @property
    def has_map(self) -> bool:
        """Whether there is a map."""
        return self._balancing != OFF

    @property
    def is_placing(self) -> bool:
        """Whether jobs are put where the load is least."""
        return self._balancing == ON

    async def place(self, uids: Collection[UUID]) -> dict[UUID, PlacedJob]:
        """Put right what the map holds of these jobs, which are stored; those that got another
        phase come back. What waits for its turn meanwhile is placed together."""
        if not self.has_map:
            return {}
        wanted = set(uids)
        self._asked |= wanted
        async with self._turn:
            asked = sorted(self._asked)
            # Whoever had the turn before may have placed ours as well.
            if not self._asked.isdisjoint(wanted):
                self._asked.clear()
                for start in range(0, len(asked), CHUNK):
                    await self._place(asked[start : start + CHUNK])
            return {uid: self._answers.pop(uid) for uid in wanted if uid in self._answers}

    async def place_waiting(self) -> int:
        """Put right whatever the map has wrong, wherever it came from; says how much was."""
        total, after = 0, 0
        if not self.has_map or not await load_map.is_any_unplaced(self._database):
            return total
        while True:
            async with self._turn:
                found = (await self._transact(_find_after(after))).jobs
            total += len(found)
            if len(found) < CHUNK:
                return total
            # Those that somebody holds are left for the next time.
            after = found[-1].job_id

    async def ring(self) -> LoadRing:
        """The load of the coming week as it is at this moment; without a map, from the jobs."""
        now = await self._watch.now()
        if not self.has_map:
            ring = LoadRing(now)
            ring.add_all(each.candidate.load for each in await self.candidates())
            return ring
        async with self._turn, self._trusting():
            await self._kept.load(self._database, now)
            changes = await load_map.read_changes(self._database, self._kept.seen)
            ring = self._kept.apply_changes(changes, now)
            return (ring or await self._kept.reload(self._database, now)).copy()

    async def candidates(self, group: str | None = None) -> list[MappedJob]:
        """Every job of the map, or of one group, as a rebalance sees it."""
        start_s = ring_start(await self._watch.now())
        return await load_map.list_candidates(
            self._database, start_s=start_s, group=group, is_mapped=self.has_map
        )

    async def move(
        self,
        session: Session,
        moves: Sequence[Move],
        *,
        expected: Mapping[int, Footprint] | None = None,
    ) -> None:
        """Write a whole plan in this transaction, which is the caller's; Conflict, and nothing of
        it may stay, if a job has changed since. `expected` are footprints by job, as they were."""
        await load_map.lock_load_map(session)
        # By pieces: a statement may not take long, and what is read is not old when it is written.
        ordered = sorted(moves, key=lambda move: move.job)
        for start in range(0, len(ordered), CHUNK):
            await self._move(session, ordered[start : start + CHUNK], expected)
        self._metrics.count("rebalance", len(moves))

    async def _move(
        self,
        session: Session,
        moves: Sequence[Move],
        expected: Mapping[int, Footprint] | None,
    ) -> None:
        now = await clock.now(session)
        found = await load_map.find_jobs_to_place(session, [move.job for move in moves])
        # A tenth of a second, in which others have their turn.
        placings = await asyncio.to_thread(updates_for_moves, found, moves, now, expected=expected)
        written = await load_map.write_placements(session, placings)
        if len(written.job_ids) != len(placings):
            raise Conflict("jobs of the plan are changing at this moment; try again")

    async def _place(self, uids: Sequence[UUID]) -> None:
        async def find(session: Session, seen: int) -> UnplacedJobs | None:
            return await load_map.find_unplaced_among(session, seen, uids)

        done = await self._transact(find, is_quick=len(uids) <= FEW)
        self._answers |= {each.uid: each for each in done.placed}

    async def _transact(self, find: FindUnplaced, *, is_quick: bool = False) -> PlacementResult:
        """Lock, look, choose, write. With `is_quick`, first try without the lock: two statements
        instead of six, and most of the time nobody else places in between."""
        began = time.monotonic()
        async with self._trusting():
            await self._kept.load(self._database, await self._watch.now())
            done = await self._put_right(self._database, find) if is_quick else None
            if done is None:
                async with self._database.transaction() as session:
                    await load_map.lock_load_map(session)
                    done = await self._put_right_locked(session, find)
                    failpoint.reach("before_placement_commit")
        if done.jobs:
            self._metrics.durations.observe(time.monotonic() - began)
        self._tell(done.placed)
        return done

    async def _put_right(self, session: Session, find: FindUnplaced) -> PlacementResult | None:
        """Without the lock; None: somebody else has changed the map, or is about to."""
        look = await find(session, self._kept.seen)
        if look is None:
            return NOTHING_PLACED
        ring = self._kept.apply_changes(look.changes, look.at)
        if ring is None:
            # Read anew, it would be newer than what was seen of these jobs.
            return None
        failpoint.reach("before_placement_commit")
        return await self._write(session, look, ring, seen=self._kept.seen)

    async def _put_right_locked(self, session: Session, find: FindUnplaced) -> PlacementResult:
        look = await find(session, self._kept.seen)
        if look is None:
            return NOTHING_PLACED
        ring = self._kept.apply_changes(look.changes, look.at)
        ring = ring or await self._kept.reload(session, look.at)
        done = await self._write(session, look, ring, seen=None)
        assert done is not None  # noqa: S101 - who has the lock is not refused
        gone = [job.job_id for job in look.jobs if job.version is None]
        if gone:
            await load_map.remove_from_load_map(session, gone)
        return done

    async def _write(
        self, session: Session, look: UnplacedJobs, ring: LoadRing, *, seen: int | None
    ) -> PlacementResult | None:
        # Those that are undecided go on waiting.
        there = [job for job in look.jobs if job.version is not None and not job.is_undecided]
        deciding = partial(decide_updates, ring, there, look.at, may_place=self.is_placing)
        # One takes less than a millisecond, and a thousand a second.
        placings = deciding() if len(there) == 1 else await asyncio.to_thread(deciding)
        first_at = min((each.next_beat_at for each in placings if each.next_beat_at), default=None)
        is_soon = first_at is not None and first_at < look.at + clock.SOON
        written = await load_map.write_placements(session, placings, seen=seen, wakes=is_soon)
        self._kept.mark_seen(written.seq)
        for each in placings:
            if each.job.job_id not in written.job_ids:
                undo_update(ring, each)
        if not written.is_agreed:
            return None
        kept = [each for each in placings if each.job.job_id in written.job_ids]
        placed = (placed_job_from(each, ring, look.at) for each in kept)
        return PlacementResult(look.jobs, [each for each in placed if each is not None])

    def _tell(self, placed: Sequence[PlacedJob]) -> None:
        """Say what was placed where."""
        for each in placed:
            self._metrics.count("new" if each.is_new else "reschedule")
            log.get_logger().info(
                log.JOB_PLACED if each.is_new else log.JOB_REPLACED,
                job_id=str(each.uid),
                slot=format_instant(slot_of(each.next_beat_at)),
                load=each.load,
            )

    @asynccontextmanager
    async def _trusting(self) -> AsyncGenerator[None]:
        """The ring is as good as what is done with it: whatever fails may have spoilt it."""
        try:
            yield
        except BaseException:
            self._kept.drop()
            raise


def _find_after(after: int) -> FindUnplaced:
    async def find(session: Session, seen: int) -> UnplacedJobs | None:
        return await load_map.find_unplaced_jobs(session, seen, after=after, limit=CHUNK)

    return find


def placed_job_from(placing: PlacementUpdate, ring: LoadRing, now: datetime) -> PlacedJob | None:
    """None: its phase is what it was."""
    job, timetable, next_at = placing.job, placing.timetable, placing.next_beat_at
    if timetable is None or next_at is None or job.uid is None:
        return None
    place = (seconds_of(next_at) - ring.start_s) // SLOT_S
    load = int(ring.slot[place]) if place < len(ring.slot) else 0
    return PlacedJob(job.uid, timetable, next_at, now, job.is_new, load)
