"""Requeueing: dead letters run again, by their own jobs or by new ones that run once.

A job runs its letter again if it is there and still has the payload of the letter. Requeueing does
not bring back a job that was deleted or cancelled, nor run one that was changed since: then a new
job is made of what the letter holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from evenbeat.control.bulk_action import finish_bulk_action, write_bulk_action
from evenbeat.control.jobs.actions import JobAction, JobDecision
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import Conflict
from evenbeat.core.jobs import actions as acts
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import State
from evenbeat.core.jobs.payload import is_same_json
from evenbeat.core.ops.audit import Actor
from evenbeat.core.runs.dead_letters import DeadLetter
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.jobs import actions as store_actions
from evenbeat.store.jobs import jobs as store_jobs
from evenbeat.store.jobs.jobs import StoredJob
from evenbeat.store.runs.dead_letters import requeue_definition

# A finished job is retried, which counts its attempts anew; any other is run beside its schedule.
FINISHED = (State.FAILED, State.COMPLETED)


@dataclass(frozen=True, slots=True)
class LetterToRequeue:
    """A letter, the rest of the definition that its job had, and the payload to run it with."""

    letter: DeadLetter
    terms: Mapping[str, Any]
    payload: Any


@dataclass(frozen=True, slots=True)
class RequeuePlan:
    """By letter: the jobs that run it again and how, new jobs that are needed, and refusals."""

    own_jobs: Mapping[Action, Mapping[int, UUID]]
    new_jobs: Sequence[LetterToRequeue]
    refused: Mapping[int, Conflict]


@dataclass(frozen=True, slots=True)
class RequeueResult:
    """By letter, the job that runs it again; and the actions to finish after the commit."""

    jobs: Mapping[int, UUID]
    steps: tuple[tuple[JobAction, JobDecision], ...]

    async def finish(self, database: Database) -> None:
        for request, decision in self.steps:
            await finish_bulk_action(database, request, decision)


async def plan_requeue(
    session: Session, wanted: Sequence[LetterToRequeue], *, locked: bool
) -> RequeuePlan:
    """Which job runs each letter again; `locked`, these jobs stay as they are until the commit."""
    uids = {each.letter.job_uid for each in wanted if each.letter.job_uid}
    if locked:
        await store_actions.lock_jobs(session, uids)
    stored = {job.uid: job for job in await store_jobs.find_stored_jobs(session, uids)}
    own_jobs: dict[Action, dict[int, UUID]] = {Action.RETRY: {}, Action.RUN: {}}
    new_jobs: list[LetterToRequeue] = []
    refused: dict[int, Conflict] = {}
    for each in wanted:
        job = stored.get(each.letter.job_uid) if each.letter.job_uid else None
        if job is None or not can_own_job_rerun(job, each):
            new_jobs.append(each)
            continue
        action = Action.RETRY if job.pulse.state in FINISHED else Action.RUN
        try:
            acts.check_action(action, job.pulse)
            own_jobs[action][each.letter.id] = job.uid
        except Conflict as error:
            refused[each.letter.id] = error
    return RequeuePlan(own_jobs, new_jobs, refused)


def can_own_job_rerun(job: StoredJob, wanted: LetterToRequeue) -> bool:
    """Whether the job would do once more what the letter asks for."""
    if job.definition is None or job.pulse.state is State.CANCELLED:
        return False
    is_same_kind = job.definition.kind == wanted.letter.kind
    return is_same_kind and is_same_json(job.definition.payload, wanted.payload)


async def requeue_letters(
    session: Session, jobs: Jobs, plan: RequeuePlan, *, by: Actor
) -> RequeueResult:
    """Carry out the plan, in its transaction. Several letters of one job are one run of it."""
    definitions = [
        requeue_definition(each.letter, each.terms, each.payload) for each in plan.new_jobs
    ]
    uids = await jobs.add_within(session, definitions, by=by)
    job_of_letter = {each.letter.id: uid for each, uid in zip(plan.new_jobs, uids, strict=True)}
    steps: list[tuple[JobAction, JobDecision]] = []
    for action, own_jobs in plan.own_jobs.items():
        if not own_jobs:
            continue
        request = JobAction(action, Filter(uids=frozenset(own_jobs.values())), by)
        steps.append((request, await write_bulk_action(session, request)))
        job_of_letter |= own_jobs
    return RequeueResult(job_of_letter, tuple(steps))
