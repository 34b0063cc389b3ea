"""What people do to jobs: run, pause, cancel, edit and the others, on one job as on ten thousand.

core/jobs/actions decides what becomes of each job; control/bulk_action has the steps that these
actions share with those on dead letters.
"""

import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from evenbeat.control.bulk_action import (
    BulkAction,
    BulkDecision,
    BulkResult,
    Refusal,
    finish_bulk_action,
    run_bulk_action,
    write_bulk_action,
)
from evenbeat.core.errors import Conflict, NotFound
from evenbeat.core.jobs import actions as acts
from evenbeat.core.jobs.actions import JobChange
from evenbeat.core.jobs.catchup import MissedBeats, find_count_limit
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.groups import describe_group_conflicts
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Definition, Job, Pulse, UnrunnableClaim
from evenbeat.core.ops.audit import Actor, NewAuditEntry, find_differences
from evenbeat.core.runs.outcome import HandedBack
from evenbeat.core.runs.settle import SettledRun, settle, stop_job
from evenbeat.observe import log
from evenbeat.store.balance import unplaced_jobs
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.jobs import actions, definitions, groups, jobs, listing
from evenbeat.store.jobs.groups import StoredGroup
from evenbeat.store.jobs.job_inserts import open_lanes
from evenbeat.store.jobs.jobs import StoredJob
from evenbeat.store.runs import completions, leases

# After these a job may be due that no node waits for.
WAKING_ACTIONS = (
    Action.RUN,
    Action.RESUME,
    Action.ENABLE,
    Action.RETRY,
    Action.RELEASE,
    Action.EDIT,
)
# After these a job may be placed where the load is least, as if it were new.
REPLACING_ACTIONS = (Action.RESUME, Action.ENABLE, Action.EDIT)
# These may bring a job into the map of the load, or take it out.
MAP_CHANGING_ACTIONS = (
    *REPLACING_ACTIONS,
    Action.PAUSE,
    Action.DISABLE,
    Action.CANCEL,
    Action.DELETE,
    Action.RETRY,
)

DecidedJob = tuple[StoredJob, JobChange]
JobDecision = BulkDecision[DecidedJob, UUID]
ActionResult = BulkResult[Action, UUID]


class JobAction(BulkAction[Action, StoredJob, DecidedJob, UUID]):
    """One action on all jobs that a filter matches."""

    noun = "jobs"

    def __init__(self, action: Action, chosen: Filter, by: Actor) -> None:
        super().__init__(action, by)
        self._chosen = chosen
        # Groups in which this action has freed a place.
        self._freed_group_ids = frozenset[int]()

    def change(self, job: StoredJob, now: datetime) -> JobChange:
        """What becomes of the job. Raises Conflict where its state does not allow the action."""
        if self.action is Action.RELEASE:
            # The run is settled like any other end of a run, in `write`.
            acts.check_action(self.action, job.pulse)
            return JobChange(job.pulse)
        return acts.perform_action(self.action, job.pulse, job.definition, now)

    async def find(self, session: Session, *, limit: int, locked: bool) -> Sequence[StoredJob]:
        uids = await listing.find_matching_uids(session, self._chosen, limit=limit)
        self.check_count(len(uids))
        if locked:
            await actions.lock_jobs(session, uids)
            # A job may have changed before it was locked: the filter is asked again.
            uids = await listing.find_matching_uids(session, self._chosen, limit=limit)
        return await jobs.find_stored_jobs(session, uids)

    async def decide(
        self, session: Session, found: Sequence[StoredJob], *, locked: bool
    ) -> JobDecision:
        del locked
        now = await clock.now(session)
        ready: list[DecidedJob] = []
        refused: list[Refusal[UUID]] = []
        for job in found:
            try:
                ready.append((job, self.change(job, now)))
            except Conflict as error:
                refused.append(Refusal(job.uid, job.name or str(job.uid), error, job.name))
        return BulkDecision(ready, tuple(refused))

    async def write(self, session: Session, ready: Sequence[DecidedJob]) -> None:
        ids = [job.id for job, _ in ready]
        if self.action is Action.RELEASE:
            self._freed_group_ids = await release_runs(session, ids, self.by)
        else:
            await actions.write_changes(session, self.action, ready)
        if self.action is Action.DELETE:
            await actions.delete_jobs(session, ids)
        await actions.write_missed_beats(session, count_missed_beats(ready))
        if self.action in MAP_CHANGING_ACTIONS:
            moved = [job.id for job, change in ready if is_misplaced(job, change)]
            await unplaced_jobs.mark_unplaced(session, moved, anew=self.action in REPLACING_ACTIONS)

    def id_of(self, decided: DecidedJob) -> UUID:
        return decided[0].uid

    def audit_entry(self, decided: DecidedJob) -> NewAuditEntry:
        job, change = decided
        before, after = pulse_facts(job.pulse), pulse_facts(change.pulse)
        match self.action:
            case Action.DELETE:
                before, after = before | {"is_deleted": False}, after | {"is_deleted": True}
            case Action.RELEASE:
                before, after = {"run_number": job.pulse.run_number}, {"run_number": None}
            case _:
                if change.definition is not None:
                    columns = definitions.definition_columns
                    before |= columns(job.definition) if job.definition else {}
                    before["version"], after["version"] = job.version, job.version + 1
                    after |= columns(change.definition)
        differences = find_differences(before, after)
        return NewAuditEntry(self.action, *differences, job.id, job.uid, job.name)

    def log_entry(self, decided: DecidedJob) -> tuple[str, dict[str, Any]]:
        return log.JOB_CHANGED, {"job_id": str(decided[0].uid)}

    async def after_commit(self, database: Database, ready: Sequence[DecidedJob]) -> None:
        if self._freed_group_ids:
            await groups.unpark_jobs(database, self._freed_group_ids)
        if ready and self.action in WAKING_ACTIONS:
            await clock.wake(database)


class JobEdit(JobAction):
    """Another definition for one job, if the job still is at `version`."""

    def __init__(
        self,
        uid: UUID,
        to: Definition,
        *,
        by: Actor,
        version: int | None = None,
        group_id: int | None = None,
    ) -> None:
        super().__init__(Action.EDIT, Filter.one(uid), by)
        self._to = to
        self._version = version
        self._group_id = group_id

    def change(self, job: StoredJob, now: datetime) -> JobChange:
        if self._version is not None and self._version != job.version:
            raise Conflict(
                f"the job is at version {job.version} and not {self._version} any more:"
                " read it again"
            )
        return acts.edit_job(job.pulse, job.definition, self._to, now)

    async def write(self, session: Session, ready: Sequence[DecidedJob]) -> None:
        await super().write(session, ready)
        for job, change in ready:
            if change.definition is not None:
                await actions.write_definition(
                    session, job, change.definition, group_id=self._group_id, by=self.by
                )


@dataclass(frozen=True, slots=True)
class WrittenEdit:
    """An edit in a transaction that is not committed yet, and what it says of its group."""

    steps: tuple[tuple[JobAction, JobDecision], ...]
    warnings: tuple[str, ...]


async def act(
    database: Database,
    action: Action,
    chosen: Filter,
    *,
    by: Actor,
    dry_run: bool = False,
    skip_refused: bool = False,
) -> ActionResult:
    request = JobAction(action, chosen, by)
    return await run_bulk_action(database, request, dry_run=dry_run, skip_refused=skip_refused)


async def edit(
    database: Database,
    uid: UUID,
    to: Definition,
    *,
    by: Actor,
    version: int | None = None,
    switch: Action | None = None,
) -> tuple[str, ...]:
    """Give the job this definition, and enable or disable it, in one transaction.

    Returns warnings: what the definition says of its group that does not hold there.
    """
    async with database.transaction() as session:
        written = await write_edit(session, uid, to, by=by, version=version, switch=switch)
    for request, decision in written.steps:
        await finish_bulk_action(database, request, decision)
    return written.warnings


async def try_edit(
    database: Database,
    uid: UUID,
    to: Definition,
    *,
    by: Actor,
    version: int | None = None,
    switch: Action | None = None,
) -> Job:
    """The job as the edit would leave it: runs the whole edit, reads the job, then rolls back."""
    async with open_dry_run(database) as connection:
        session = Session(connection, database.clock)
        written = await write_edit(session, uid, to, by=by, version=version, switch=switch)
        return replace(await jobs.find_job(session, uid), warnings=written.warnings)


async def write_edit(
    session: Session,
    uid: UUID,
    to: Definition,
    *,
    by: Actor,
    version: int | None,
    switch: Action | None,
) -> WrittenEdit:
    # Lanes and groups are locked before jobs, here as everywhere: else two transactions could wait
    # for each other.
    await open_lanes(session, [(to.kind, to.runs_on)])
    group: StoredGroup | None = None
    if to.group is not None:
        group = await groups.ensure_group(session, to.group.key, to.group)
    requests: list[JobAction] = [
        JobEdit(uid, to, by=by, version=version, group_id=group and group.id)
    ]
    if switch is not None:
        requests.append(JobAction(switch, Filter.one(uid), by))
    steps: list[tuple[JobAction, JobDecision]] = []
    for request in requests:
        decision = await write_bulk_action(session, request)
        if not decision.ready:
            raise NotFound(f"no job {uid}")
        steps.append((request, decision))
    conflicts = describe_group_conflicts(to.group, group) if to.group and group else ()
    return WrittenEdit(tuple(steps), conflicts)


@contextlib.asynccontextmanager
async def open_dry_run(database: Database) -> AsyncGenerator[Any]:
    """A connection in a transaction that is rolled back at the end."""
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()


def count_missed_beats(ready: Sequence[DecidedJob]) -> list[tuple[int, MissedBeats]]:
    """The beats that these changes pass over, one row for each job that has some."""
    passed = [(job.id, change.passed) for job, change in ready if change.passed is not None]
    limit = find_count_limit(len(passed))
    counted = ((job_id, beats.count(limit)) for job_id, beats in passed)
    return [(job_id, missed) for job_id, missed in counted if missed is not None]


def is_misplaced(job: StoredJob, change: JobChange) -> bool:
    """Whether a recurring job may now beat at other instants than the map of the load says."""
    known = [each for each in (job.definition, change.definition) if each is not None]
    if known and not any(each.timetable.schedule.is_recurring for each in known):
        return False
    return change.is_replanned or beat_facts(job.pulse) != beat_facts(change.pulse)


def beat_facts(pulse: Pulse) -> tuple[Any, ...]:
    """What decides whether a job beats at all; a failed job may have a next beat or none."""
    return pulse.resting, pulse.wanted, pulse.next_beat_at is None


async def release_runs(session: Session, job_ids: Sequence[int], by: Actor) -> frozenset[int]:
    """Close the runs in hand as handed back, so that their nodes' tokens are void.

    Returns the groups in which a place came free.
    """
    now, outcome = await clock.now(session), HandedBack(f"released by {by.name}")
    batch = [
        SettledRun(
            held,
            stop_job(held.error)
            if isinstance(held, UnrunnableClaim)
            else settle(held, outcome, now),
            None,
        )
        for held in await leases.list_leased_runs(session, job_ids)
    ]
    written = await completions.complete_runs(session, batch)
    actions.check_change_count(Action.RELEASE, len(written.run_ids), len(job_ids))
    return written.group_ids


def pulse_facts(pulse: Pulse) -> dict[str, Any]:
    """What the audit keeps of a pulse."""
    return {
        "state": pulse.state,
        "wanted": pulse.wanted,
        "next_beat_at": pulse.next_beat_at,
        "retry_at": pulse.retry_at,
        "manual_at": pulse.manual_at,
    }
