"""The planner: plans and places whatever nobody has planned or placed, wherever it came from."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from evenbeat.core.jobs.actions import find_passed_beats, is_beat_in_hand
from evenbeat.core.jobs.catchup import MissedBeats, find_count_limit
from evenbeat.core.jobs.model import Cause, Pulse
from evenbeat.placement.placer import Placer
from evenbeat.store.balance import unplaced_jobs
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.jobs import actions, unplanned_jobs
from evenbeat.store.jobs.unplanned_jobs import PlannedJob, UnplannedJob

# In one transaction: some tens of milliseconds.
CHUNK = 200


class Planner:
    """The net below those who plan and place what they add: for SQL, which cannot, for callers'
    transactions, for the dead, and for jobs that ended by themselves."""

    def __init__(self, database: Database, placement: Placer) -> None:
        self._database = database
        self._placement = placement
        self._over: set[int] = set()

    def note_stopped(self, job_ids: Collection[int]) -> None:
        """These jobs, whose ends are written, beat no more by themselves: they leave the map at the
        next turn. If this process dies before, housekeeping finds them."""
        if self._placement.has_map:
            self._over.update(job_ids)

    async def turn(self) -> int:
        """How many were planned. Asks once each, and nothing more where nothing waits."""
        planned = await self._plan_waiting()
        if self._over:
            over = frozenset(self._over)
            await unplaced_jobs.mark_ended(self._database, over)
            self._over -= over
        await self._placement.place_waiting()
        return planned

    async def _plan_waiting(self) -> int:
        total = 0
        while await unplanned_jobs.is_any_unplanned(self._database):
            async with self._database.transaction() as session:
                found = await unplanned_jobs.lock_unplanned_jobs(session, limit=CHUNK)
                if found:
                    await plan(session, found)
            total += len(found)
            if len(found) < CHUNK:
                break
        if total:
            await clock.wake(self._database)
        return total


async def plan(session: Session, found: list[UnplannedJob]) -> None:
    await unplanned_jobs.write_plans(session, [planned_of(each) for each in found])
    limit = find_count_limit(len(found))
    counted = ((each.job.id, missed_of(each, limit)) for each in found)
    await actions.write_missed_beats(
        session, [(job_id, missed) for job_id, missed in counted if missed is not None]
    )
    await unplaced_jobs.mark_unplaced(session, [each.job.id for each in found], anew=True)


def missed_of(each: UnplannedJob, limit: int) -> MissedBeats | None:
    """The beats that were passed over when the job was edited or enabled by SQL, as one row."""
    pulse, was, since = each.job.pulse, each.old_timetable, each.since
    if was is None or each.passed_from is None or has_ended_a_beat(pulse, since):
        return None
    pulse = replace(pulse, next_beat_at=each.passed_from)
    if each.owed_at is not None:
        pulse = replace(pulse, retry_at=each.owed_at, beat_at=each.owed_at)
    passed = find_passed_beats(pulse, was, since, each.passed_in)
    return passed and passed.count(limit)


def has_ended_a_beat(pulse: Pulse, since: datetime) -> bool:
    """Whether a retry that waited was run before the job was planned: the end of that run has told
    the beats that follow it."""
    is_manual = pulse.cause is Cause.MANUAL
    return not is_manual and pulse.last_started_at is not None and pulse.last_started_at >= since


def planned_of(each: UnplannedJob) -> PlannedJob:
    """Its first beat after it was written, whenever that was: what was due meanwhile is late, and
    not lost. A beat that was begun since then is not begun again."""
    pulse, definition = each.job.pulse, each.job.definition
    if definition is None:
        return PlannedJob(each.job, None, each.owed_at)
    after = each.since
    if pulse.beat_at is not None and pulse.cause is not Cause.MANUAL:
        after = max(after, pulse.beat_at)
    is_begun = is_beat_in_hand(pulse) or pulse.retry_at is not None or each.owed_at is not None
    next_beat_at = definition.timetable.next_after(after, pulse.runs_so_far + is_begun)
    return PlannedJob(each.job, next_beat_at, each.owed_at)
