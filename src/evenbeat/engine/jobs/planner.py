"""The planner: plans and places jobs that were stored without a plan or a place."""

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

# Jobs in one transaction: it takes some tens of milliseconds.
CHUNK = 200


class Planner:
    """Plans jobs that came by SQL; places jobs that were added in callers' transactions or by a
    process that died; and takes jobs that have ended out of the map."""

    def __init__(self, database: Database, placement: Placer) -> None:
        self._database = database
        self._placement = placement
        self._stopped: set[int] = set()

    def note_stopped(self, job_ids: Collection[int]) -> None:
        """These recurring jobs have no next beat: they leave the map at the next turn. If this
        process dies before that, housekeeping finds them."""
        if self._placement.has_map:
            self._stopped.update(job_ids)

    async def turn(self) -> int:
        """Plan, unmap and place what waits; returns how many jobs were planned."""
        planned = await self._plan_waiting()
        if self._stopped:
            stopped = frozenset(self._stopped)
            await unplaced_jobs.mark_ended(self._database, stopped)
            self._stopped -= stopped
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
    await unplanned_jobs.write_plans(session, [plan_job(each) for each in found])
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
    """Whether a retry that waited was run before the job was planned: the end of that run has
    recorded the beats that follow it."""
    is_manual = pulse.cause is Cause.MANUAL
    return not is_manual and pulse.last_started_at is not None and pulse.last_started_at >= since


def plan_job(each: UnplannedJob) -> PlannedJob:
    """The first beat after the job was written, however long ago: a beat that was due meanwhile is
    late, not lost. A beat that has begun since then does not begin again."""
    pulse, definition = each.job.pulse, each.job.definition
    if definition is None:
        return PlannedJob(each.job, None, each.owed_at)
    after = each.since
    if pulse.beat_at is not None and pulse.cause is not Cause.MANUAL:
        after = max(after, pulse.beat_at)
    is_begun = is_beat_in_hand(pulse) or pulse.retry_at is not None or each.owed_at is not None
    next_beat_at = definition.timetable.next_after(after, pulse.runs_so_far + is_begun)
    return PlannedJob(each.job, next_beat_at, each.owed_at)
