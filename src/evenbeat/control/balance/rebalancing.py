"""Rebalancing: make plans, apply them exactly as they were shown, and undo them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from evenbeat.core.balance.model import MoveBudget, RebalanceCandidate, RebalancePlan
from evenbeat.core.balance.plan_records import PlanState, PlanSummary, StoredPlan
from evenbeat.core.balance.projection import project_moves
from evenbeat.core.balance.rebalance import plan_rebalance
from evenbeat.core.balance.undo import undo_moves
from evenbeat.core.errors import Conflict
from evenbeat.core.ops.audit import Actor, NewAuditEntry
from evenbeat.observe import failpoint
from evenbeat.placement.placer import Placer
from evenbeat.store.balance import load_map, rebalance_plans
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.jobs.job_inserts import new_job_uid
from evenbeat.store.ops import audit

# How often a conflict is tried again, and the seconds in between.
TRIES, PAUSE = 3, 0.1

_REFUSALS = {
    PlanState.EXPIRED: "plan {} is too old: plans hold for five minutes; make another",
    PlanState.APPLIED: "plan {} has been applied already; make another",
    PlanState.UNDONE: "plan {} has been applied and taken back; make another",
}


class Rebalancer:
    """Makes plans at any time, and applies them while balancing is on: a whole plan or nothing.

    The transaction that applies a plan holds the lock of the map, so that no other process moves a
    job meanwhile.
    """

    def __init__(self, database: Database, placement: Placer) -> None:
        self._database = database
        self._placement = placement

    async def plan(
        self, group: str | None, max_moves: int | None, by: Actor
    ) -> tuple[StoredPlan, list[RebalanceCandidate]]:
        """A plan, which is not stored yet, and all jobs that it considered."""
        now = await clock.now(self._database)
        # Read before the jobs: a change that comes while they are read is then newer than the plan.
        seen = await rebalance_plans.find_newest_change(self._database)
        mapped = await self._placement.candidates(group)
        candidates = [each.candidate for each in mapped]
        found = await asyncio.to_thread(
            plan_rebalance, candidates, now, budget=MoveBudget(max_moves=max_moves)
        )
        summary = replace(
            summary_of(found, now, by),
            group=group,
            max_moves=max_moves,
            seen=seen,
            job_count=len(mapped),
        )
        uids = {each.candidate.load.job: each.uid for each in mapped}
        return StoredPlan(summary, found.moves, found.skipped, uids), candidates

    async def apply(self, plan_id: UUID, by: Actor) -> StoredPlan:
        """Apply a stored plan. Raises Conflict if the jobs have changed since it was shown."""

        async def work() -> StoredPlan:
            async with self._database.transaction() as session:
                await load_map.lock_load_map(session)
                plan = await rebalance_plans.lock_plan(session, plan_id)
                state = plan.summary.state(await clock.now(session))
                if state in _REFUSALS:
                    raise Conflict(_REFUSALS[state].format(plan_id))
                if await rebalance_plans.find_newest_change(session) != plan.summary.seen:
                    raise Conflict("the schedule has changed since the plan was made; make another")
                await self._write_moves(session, plan, by)
            return plan

        return await self._retry_conflicts(work)

    async def plan_and_apply(
        self, group: str | None, max_moves: int | None, by: Actor
    ) -> StoredPlan:
        """Plan and apply. Other jobs may come and go meanwhile; only those that move must stay."""

        async def work() -> StoredPlan:
            plan, _ = await self.plan(group, max_moves, by)
            return await self._apply_new(plan, by)

        return await self._retry_conflicts(work)

    async def undo(self, plan_id: UUID | None, by: Actor) -> StoredPlan:
        """Undo the last rebalance: jobs that are still where it put them return."""

        async def work() -> StoredPlan:
            last = await self.last_applied()
            if plan_id not in (None, last.id):
                raise Conflict(f"plan {plan_id} is not the last rebalance: that is {last.id}")
            return await self._apply_new(await self._plan_undo(last, by), by)

        return await self._retry_conflicts(work)

    async def _retry_conflicts(self, work: Callable[[], Awaitable[StoredPlan]]) -> StoredPlan:
        """Try a few times: a run that begins or ends just now locks its row only for a moment."""
        self._check_mode()
        for _ in range(TRIES - 1):
            try:
                return await work()
            except Conflict:
                await asyncio.sleep(PAUSE)
        return await work()

    async def last_applied(self) -> PlanSummary:
        last = await rebalance_plans.find_last_applied(self._database)
        if last is None:
            raise Conflict("there is no rebalance to take back")
        return last

    def _check_mode(self) -> None:
        if not self._placement.is_placing:
            raise Conflict("balancing is not on, so nothing is moved: set EVENBEAT_BALANCING=on")

    async def _apply_new(self, plan: StoredPlan, by: Actor) -> StoredPlan:
        async with self._database.transaction() as session:
            await load_map.lock_load_map(session)
            if plan.summary.undoes is not None:
                await self._check_last(session, plan.summary.undoes)
            await rebalance_plans.insert_plan(session, plan)
            await self._write_moves(session, plan, by)
        return plan

    async def _check_last(self, session: Session, plan_id: UUID) -> None:
        last = await rebalance_plans.find_last_applied(session)
        if last is None or last.id != plan_id:
            raise Conflict(f"plan {plan_id} is not the last rebalance any more")

    async def _write_moves(self, session: Session, plan: StoredPlan, by: Actor) -> None:
        summary = plan.summary
        if plan.moves:
            await self._placement.move(session, plan.moves)
        await rebalance_plans.mark_applied(session, summary.id, by=by)
        if summary.undoes is not None:
            await rebalance_plans.mark_undone(session, summary.undoes, by=by)
        await audit.write_audit(session, [rebalance_note(plan)], by=by)
        failpoint.reach("before_rebalance_commit")

    async def _plan_undo(self, last: PlanSummary, by: Actor) -> StoredPlan:
        done = await rebalance_plans.find_plan(self._database, last.id)
        now = await clock.now(self._database)
        candidates = [each.candidate for each in await self._placement.candidates(last.group)]
        jobs = {candidate.load.job: candidate for candidate in candidates}
        moves, skipped = undo_moves(done.moves, jobs, now)
        if not moves:
            raise Conflict(f"no job is where the last rebalance, {last.id}, has put it")
        before, after = await asyncio.to_thread(project_moves, candidates, moves, now)
        plan = RebalancePlan(moves, skipped, before.score, after.score, after.score.score)
        summary = replace(
            summary_of(plan, now, by),
            group=last.group,
            undoes=last.id,
            job_count=len(candidates),
        )
        return StoredPlan(summary, moves, skipped, done.uids)


def summary_of(plan: RebalancePlan, now: datetime, by: Actor) -> PlanSummary:
    return PlanSummary(
        id=new_job_uid(now),
        made_at=now,
        made_by=by.name,
        before=plan.before,
        after=plan.after,
        attainable_score=plan.attainable_score,
        suggestion=plan.suggestion,
        move_count=len(plan.moves),
        skip_count=len(plan.skipped),
    )


def rebalance_note(plan: StoredPlan) -> NewAuditEntry:
    summary = plan.summary
    done = {"plan_id": str(summary.id), "moved": summary.move_count, "skipped": summary.skip_count}
    if summary.group is not None:
        done["group"] = summary.group
    if summary.undoes is None:
        return NewAuditEntry("rebalance", {}, done)
    return NewAuditEntry("undo rebalance", {"plan_id": str(summary.undoes)}, done)
