"""Requeueing: dead letters run again, by their own jobs or by new ones that run once.

A job runs its letter again if it lives and still has the payload of the letter. One that was
deleted or cancelled is not brought back by that, and one that was changed is another: then a new
job is made of what the letter holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from evenbeat.control.jobs import actions
from evenbeat.control.jobs.actions import Decided, JobActionRequest
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

# What is over is retried, since that counts its attempts anew; the rest is run beside its schedule.
OVER = (State.FAILED, State.COMPLETED)


@dataclass(frozen=True, slots=True)
class LetterToRequeue:
    """A letter, what else its job said, and the payload it is to run with."""

    letter: DeadLetter
    terms: Mapping[str, Any]
    payload: Any


@dataclass(frozen=True, slots=True)
class RequeuePlan:
    """Which jobs do what, which letters need a job of their own, and which cannot run now."""

    own: Mapping[Action, Mapping[int, UUID]]
    others: Sequence[LetterToRequeue]
    refused: Mapping[int, Conflict]


@dataclass(frozen=True, slots=True)
class RequeueResult:
    """By which job each letter runs again, and what is left to do after the commit."""

    jobs: Mapping[int, UUID]
    done: tuple[tuple[JobActionRequest, Decided], ...]

    async def finish(self, database: Database) -> None:
        for errand, decided in self.done:
            await actions.finish_action(database, errand, decided, frozenset())


async def plan_requeue(
    session: Session, wanted: Sequence[LetterToRequeue], *, locked: bool
) -> RequeuePlan:
    """Whose jobs do it; locked, these stay as they are until the end of the transaction."""
    uids = {each.letter.job_uid for each in wanted if each.letter.job_uid}
    if locked:
        await store_actions.lock_jobs(session, uids)
    standing = {job.uid: job for job in await store_jobs.find_stored_jobs(session, uids)}
    own: dict[Action, dict[int, UUID]] = {Action.RETRY: {}, Action.RUN: {}}
    others: list[LetterToRequeue] = []
    refused: dict[int, Conflict] = {}
    for each in wanted:
        job = standing.get(each.letter.job_uid) if each.letter.job_uid else None
        if job is None or not can_own_job_rerun(job, each):
            others.append(each)
            continue
        action = Action.RETRY if job.pulse.state in OVER else Action.RUN
        try:
            acts.check_action(action, job.pulse)
            own[action][each.letter.id] = job.uid
        except Conflict as error:
            refused[each.letter.id] = error
    return RequeuePlan(own, others, refused)


def can_own_job_rerun(job: StoredJob, wanted: LetterToRequeue) -> bool:
    """Whether the job would do once more what the letter asks for."""
    if job.definition is None or job.pulse.state is State.CANCELLED:
        return False
    is_same_kind = job.definition.kind == wanted.letter.kind
    return is_same_kind and is_same_json(job.definition.payload, wanted.payload)


async def requeue_letters(
    session: Session, jobs: Jobs, planned: RequeuePlan, *, by: Actor
) -> RequeueResult:
    """In the transaction of the plan. Letters that one job runs again are one run of it."""
    written = [requeue_definition(each.letter, each.terms, each.payload) for each in planned.others]
    made = await jobs.add_within(session, written, by=by)
    by_job = {each.letter.id: uid for each, uid in zip(planned.others, made, strict=True)}
    done: list[tuple[JobActionRequest, Decided]] = []
    for action, chosen in planned.own.items():
        if not chosen:
            continue
        errand = JobActionRequest(action, partial(actions.decide_action, action), by)
        chosen_jobs = Filter(uids=frozenset(chosen.values()))
        decided, refused = await actions.decide_all(session, errand, chosen_jobs)
        if refused:
            raise actions.refusal_error(errand, refused, len(decided))
        await actions.write_changes(session, errand, decided)
        done.append((errand, decided))
        by_job |= chosen
    return RequeueResult(by_job, tuple(done))
