"""The one way in which people act on jobs, on one as on ten thousand.

Lock the jobs in the order of their ids, decide in Python what becomes of each (core/actions), write
all of it with its audit in the same transaction, and wake the nodes after the commit.
"""

import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from evenbeat.control.jobs.adding import open_lanes
from evenbeat.core.errors import Conflict, InvalidInput, NotFound
from evenbeat.core.jobs import actions as acts
from evenbeat.core.jobs.actions import JobChange
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.groups import describe_group_conflicts
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Definition, Job, Pulse
from evenbeat.core.ops.audit import Actor, NewAuditEntry, find_differences
from evenbeat.core.runs.outcome import HandedBack
from evenbeat.core.runs.settle import settle, stop_job
from evenbeat.observe import log
from evenbeat.store.balance import unplaced_jobs
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.jobs import actions, definitions, groups, jobs, listing
from evenbeat.store.jobs.jobs import StoredJob
from evenbeat.store.ops import audit
from evenbeat.store.runs import completions, leases
from evenbeat.store.runs.completions import SettledRun
from evenbeat.store.runs.leases import UnrunnableClaim

# One transaction holds them all: more would keep the ends of their runs waiting for seconds.
MOST_AT_ONCE = 10_000
MOST_NAMED = 5
# After these something may be due that nobody looks for yet.
WAKING_ACTIONS = (
    Action.RUN,
    Action.RESUME,
    Action.ENABLE,
    Action.RETRY,
    Action.RELEASE,
    Action.EDIT,
)
# After these a job may be put where the load is least, as if it were new.
REPLACING_ACTIONS = (Action.RESUME, Action.ENABLE, Action.EDIT)
# What may bring a job into the map of the load, or take it out.
MAP_CHANGING_ACTIONS = (
    *REPLACING_ACTIONS,
    Action.PAUSE,
    Action.DISABLE,
    Action.CANCEL,
    Action.DELETE,
    Action.RETRY,
)

Decide = Callable[[StoredJob, datetime], JobChange]
Decided = Sequence[tuple[StoredJob, JobChange]]


@dataclass(frozen=True, slots=True)
class RefusedJob:
    """A job that does not allow the action now, and why."""

    uid: UUID
    name: str | None
    error: Conflict

    def __str__(self) -> str:
        return f"{self.name or self.uid}: {self.error}"


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What an action did, or with `is_dry_run` would have done."""

    action: Action
    changed: tuple[UUID, ...]
    refused: tuple[RefusedJob, ...]
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class JobActionRequest:
    """What somebody wants done, and how it is decided for each job."""

    action: Action
    decide: Decide
    by: Actor
    group_id: int | None = None


async def act(
    database: Database,
    action: Action,
    chosen: Filter,
    *,
    by: Actor,
    dry_run: bool = False,
    skip_refused: bool = False,
) -> ActionResult:
    """All of the jobs or none: one that refuses stops it, unless those are to be skipped."""
    errand = JobActionRequest(action, partial(decide_action, action), by)
    if dry_run:
        decided, refused = await decide_all(database, errand, chosen)
        return action_result(errand, decided, refused, is_dry_run=True)
    async with database.transaction() as session:
        decided, refused = await lock_and_decide(session, errand, chosen)
        if refused and not skip_refused:
            raise refusal_error(errand, refused, len(decided))
        freed = await write_changes(session, errand, decided)
    await finish_action(database, errand, decided, freed)
    return action_result(errand, decided, refused)


async def edit(
    database: Database, uid: UUID, to: Definition, *, by: Actor, version: int | None = None
) -> tuple[str, ...]:
    """Give the job this definition. Says what of it does not hold."""
    async with database.transaction() as session:
        errand, decided, freed, told = await write_edit(session, uid, to, by=by, version=version)
    await finish_action(database, errand, decided, freed)
    return told


async def write_edit(
    session: Session, uid: UUID, to: Definition, *, by: Actor, version: int | None
) -> tuple[JobActionRequest, Decided, frozenset[int], tuple[str, ...]]:
    # Lanes and groups come before jobs, here as everywhere: else two could wait for each other.
    await open_lanes(session, [(to.kind, to.runs_on)])
    group = await groups.ensure_group(session, to.group.key, to.group) if to.group else None
    errand = JobActionRequest(
        Action.EDIT, partial(decide_edit, to, version), by, group and group.id
    )
    decided, refused = await lock_and_decide(session, errand, Filter.one(uid))
    if refused:
        raise refused[0].error
    if not decided:
        raise NotFound(f"no job {uid}")
    freed = await write_changes(session, errand, decided)
    return (
        errand,
        decided,
        freed,
        describe_group_conflicts(to.group, group) if to.group and group else (),
    )


async def try_edit(
    database: Database, uid: UUID, to: Definition, *, by: Actor, version: int | None = None
) -> Job:
    """What would become of the job: it is edited, looked at, and left as it was."""
    async with open_dry_run(database) as connection:
        session = Session(connection, database.clock)
        *_, told = await write_edit(session, uid, to, by=by, version=version)
        return replace(await jobs.find_job(session, uid), warnings=told)


@contextlib.asynccontextmanager
async def open_dry_run(database: Database) -> AsyncGenerator[Any]:
    """For a dry run, a connection in a transaction that is undone at the end: nothing is checked
    but all of it."""
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()


def decide_action(action: Action, job: StoredJob, now: datetime) -> JobChange:
    if action is Action.RELEASE:
        # What becomes of it is settled like any other end of a run.
        acts.check_action(action, job.pulse)
        return JobChange(job.pulse)
    return acts.perform_action(action, job.pulse, job.definition, now)


def decide_edit(to: Definition, version: int | None, job: StoredJob, now: datetime) -> JobChange:
    if version is not None and version != job.version:
        raise Conflict(
            f"the job is at version {job.version} and not {version} any more: read it again"
        )
    return acts.edit_job(job.pulse, job.definition, to, now)


async def lock_and_decide(
    session: Session, errand: JobActionRequest, chosen: Filter
) -> tuple[Decided, tuple[RefusedJob, ...]]:
    """Lock who is meant, and decide. Who is meant is asked again under the lock."""
    await actions.lock_jobs(session, await find_matching_uids(session, chosen))
    return await decide_all(session, errand, chosen)


async def decide_all(
    session: Session, errand: JobActionRequest, chosen: Filter
) -> tuple[Decided, tuple[RefusedJob, ...]]:
    found = await jobs.find_stored_jobs(session, await find_matching_uids(session, chosen))
    now = await clock.now(session)
    decided: list[tuple[StoredJob, JobChange]] = []
    refused: list[RefusedJob] = []
    for job in found:
        try:
            decided.append((job, errand.decide(job, now)))
        except Conflict as error:
            refused.append(RefusedJob(job.uid, job.name, error))
    return decided, tuple(refused)


async def find_matching_uids(session: Session, chosen: Filter) -> list[UUID]:
    uids = await listing.find_matching_uids(session, chosen, limit=MOST_AT_ONCE + 1)
    if len(uids) > MOST_AT_ONCE:
        raise InvalidInput("filter", f"finds more than {MOST_AT_ONCE} jobs: narrow it down")
    return uids


async def write_changes(
    session: Session, errand: JobActionRequest, decided: Decided
) -> frozenset[int]:
    """Write what was decided, and the audit of it; says in which groups a place came free."""
    if not decided:
        return frozenset()
    freed = frozenset[int]()
    ids = [job.id for job, _ in decided]
    if errand.action is Action.RELEASE:
        freed = await release(session, ids, errand.by)
    else:
        await actions.write_changes(session, errand.action, decided)
    if errand.action is Action.DELETE:
        await actions.delete_jobs(session, ids)
    for job, change in decided:
        if change.missed is not None:
            await actions.write_missed_beats(session, job, change.missed)
        if change.definition is not None:
            await actions.write_definition(
                session, job, change.definition, group_id=errand.group_id, by=errand.by
            )
    if errand.action in MAP_CHANGING_ACTIONS:
        moved = [job.id for job, change in decided if is_misplaced(job, change)]
        await unplaced_jobs.mark_unplaced(session, moved, anew=errand.action in REPLACING_ACTIONS)
    await audit.write_audit(session, [action_note(errand, *each) for each in decided], by=errand.by)
    return freed


def is_misplaced(job: StoredJob, change: JobChange) -> bool:
    """Whether a recurring job may now be elsewhere than the map says."""
    known = [each for each in (job.definition, change.definition) if each is not None]
    if known and not any(each.timetable.schedule.is_recurring for each in known):
        return False
    return change.is_replanned or beat_facts(job.pulse) != beat_facts(change.pulse)


def beat_facts(pulse: Pulse) -> tuple[Any, ...]:
    """Whether a job beats follows from these: one that has failed may, and may not."""
    return pulse.resting, pulse.wanted, pulse.next_beat_at is None


async def release(session: Session, job_ids: Sequence[int], by: Actor) -> frozenset[int]:
    """Close the runs in hand as handed back; their nodes' tokens are worth nothing from then on."""
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


async def finish_action(
    database: Database, errand: JobActionRequest, decided: Decided, freed: frozenset[int]
) -> None:
    """After the commit: let in who waits for the places that came free, and wake the nodes."""
    if freed:
        await groups.unpark_jobs(database, freed)
    if decided and errand.action in WAKING_ACTIONS:
        await clock.wake(database)
    for job, _ in decided:
        log.get_logger().info(
            log.JOB_CHANGED, job_id=str(job.uid), action=errand.action, actor=errand.by.name
        )


def action_result(
    errand: JobActionRequest,
    decided: Decided,
    refused: tuple[RefusedJob, ...],
    *,
    is_dry_run: bool = False,
) -> ActionResult:
    return ActionResult(errand.action, tuple(job.uid for job, _ in decided), refused, is_dry_run)


def refusal_error(errand: JobActionRequest, refused: Sequence[RefusedJob], others: int) -> Conflict:
    """Of one job, what it says itself; of many, who they are."""
    if len(refused) == 1 and not others:
        return refused[0].error
    named = "; ".join(map(str, refused[:MOST_NAMED]))
    more = f"; and {len(refused) - MOST_NAMED} more" if len(refused) > MOST_NAMED else ""
    return Conflict(
        f"cannot {errand.action} {len(refused)} of {len(refused) + others} jobs, so none was"
        f" changed: {named}{more}"
    )


def action_note(errand: JobActionRequest, job: StoredJob, change: JobChange) -> NewAuditEntry:
    before, after = pulse_facts(job.pulse), pulse_facts(change.pulse)
    match errand.action:
        case Action.DELETE:
            before, after = before | {"is_deleted": False}, after | {"is_deleted": True}
        case Action.RELEASE:
            before, after = {"run_number": job.pulse.run_number}, {"run_number": None}
        case _:
            if change.definition is not None:
                before |= definitions.definition_columns(job.definition) if job.definition else {}
                before["version"], after["version"] = job.version, job.version + 1
                after |= definitions.definition_columns(change.definition)
    return NewAuditEntry(errand.action, *find_differences(before, after), job.id, job.uid, job.name)


def pulse_facts(pulse: Pulse) -> dict[str, Any]:
    """What the audit tells of a pulse."""
    return {
        "state": pulse.state,
        "wanted": pulse.wanted,
        "next_beat_at": pulse.next_beat_at,
        "retry_at": pulse.retry_at,
        "manual_at": pulse.manual_at,
    }
