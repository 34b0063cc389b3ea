"""Balancing: how even the load is, what a rebalance would change, and applying it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from evenbeat.config import Settings
from evenbeat.control.balance.advice import Adviser
from evenbeat.control.balance.rebalancing import Rebalancer
from evenbeat.core.balance.footprint import Footprint
from evenbeat.core.balance.forecast import forecast_slots
from evenbeat.core.balance.model import (
    LONGEST_COST_S,
    UNKNOWN_COST_S,
    Distribution,
    JobLoad,
    Score,
    SkipReason,
    SlotForecast,
)
from evenbeat.core.balance.plan_records import BalanceFigures, PlanSummary, ScorePoint, StoredPlan
from evenbeat.core.balance.projection import project_moves
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.score import measure_distribution
from evenbeat.core.errors import InvalidInput
from evenbeat.core.ops.audit import PYTHON, Actor
from evenbeat.core.time.durations import DurationLimits
from evenbeat.core.time.timetable import Timetable
from evenbeat.observe import failpoint, log
from evenbeat.placement.placer import Placer
from evenbeat.placement.score_recording import record_score
from evenbeat.store.balance import rebalance_plans, scores
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import figures

# Log lines of one rebalance: a hundred thousand jobs may be skipped.
MOST_LOGGED_SKIPS = 1_000
MOST_POINTS = 500
EXPECTED = DurationLimits(
    shortest=timedelta(seconds=UNKNOWN_COST_S), longest=timedelta(seconds=LONGEST_COST_S)
)


@dataclass(frozen=True, slots=True)
class BalanceView:
    """The distribution, and what could be done about it."""

    distribution: Distribution
    group: str | None
    balancing: str
    # None: too many jobs to work it out at once.
    attainable_score: float | None
    suggestion: str


@dataclass(frozen=True, slots=True)
class RebalancePreview:
    """A plan, and the next 24 hours without and with it."""

    plan: StoredPlan
    current: Distribution
    projected: Distribution


@dataclass(frozen=True, slots=True)
class RebalanceResult:
    """A plan that was carried out, and how even the load is since."""

    plan: StoredPlan
    score: Score


@dataclass(frozen=True, slots=True)
class HypotheticalJobs:
    """Jobs to add to a forecast: `count` of one timetable, each run `expected` long."""

    timetable: Timetable
    count: int = 1
    expected: timedelta = EXPECTED.shortest

    def __post_init__(self) -> None:
        if not self.timetable.schedule.is_recurring:
            raise InvalidInput("schedule", "must recur: what runs once is no part of the forecast")

    def loads(self, start_s: int, now: datetime) -> list[JobLoad]:
        planned = self.timetable.planned_at(now)
        load = Footprint.of_timetable(planned, self.expected.total_seconds()).load(start_s)
        return [replace(load, phase_s=None) if planned.is_free else load] * self.count


@dataclass(frozen=True, slots=True)
class Forecast:
    """The coming week slot by slot, with what was added to it."""

    slots: tuple[SlotForecast, ...]
    group: str | None
    workers: int | None
    job_count: int
    added_count: int


class Balance:
    """The balance of one database. It is shown whatever `balancing` is set to.

    A group is measured and rebalanced as if its jobs were the only ones.
    """

    def __init__(self, database: Database, placement: Placer, settings: Settings) -> None:
        self._database = database
        self._placement = placement
        self._balancing = settings.balancing
        self._score_interval = settings.score_interval
        self._rebalancing = Rebalancer(database, placement)
        self._adviser = Adviser(placement)

    async def view(self, *, group: str | None = None) -> BalanceView:
        """The next 24 hours, how even they are, and what could be done about it."""
        ring, now = await self._ring(group), await clock.now(self._database)
        advice = await self._adviser.advise(ring, group, now)
        return BalanceView(
            measure_distribution(ring),
            group,
            self._balancing,
            advice.attainable_score,
            advice.suggestion,
        )

    async def preview(
        self, *, group: str | None = None, max_moves: int | None = None, by: Actor = PYTHON
    ) -> RebalancePreview:
        """Make a plan and store it, so that it can be applied as it is. Nothing is moved."""
        plan, candidates = await self._rebalancing.plan(group, max_moves, by)
        async with self._database.transaction() as session:
            await rebalance_plans.insert_plan(session, plan)
        made_at = plan.summary.made_at
        return RebalancePreview(
            plan, *await asyncio.to_thread(project_moves, candidates, plan.moves, made_at)
        )

    async def apply(self, plan_id: UUID, *, by: Actor = PYTHON) -> RebalanceResult:
        """Apply a plan exactly as it was shown. Raises Conflict if the jobs have changed."""
        return await self._record_applied(await self._rebalancing.apply(plan_id, by))

    async def rebalance(
        self, *, group: str | None = None, max_moves: int | None = None, by: Actor = PYTHON
    ) -> RebalanceResult:
        """Make a plan and apply it at once."""
        return await self._record_applied(
            await self._rebalancing.plan_and_apply(group, max_moves, by)
        )

    async def undo(self, plan_id: UUID | None = None, *, by: Actor = PYTHON) -> RebalanceResult:
        """Undo the last rebalance; with a plan id, only if that plan is the last one."""
        return await self._record_applied(await self._rebalancing.undo(plan_id, by))

    async def last_applied(self) -> PlanSummary:
        """The plan that `undo` would undo. Raises Conflict if there is none."""
        return await self._rebalancing.last_applied()

    async def plans(self, *, limit: int = 50) -> list[PlanSummary]:
        """Newest first."""
        return await rebalance_plans.list_plans(self._database, limit=limit)

    async def plan(self, plan_id: UUID) -> StoredPlan:
        return await rebalance_plans.find_plan(self._database, plan_id)

    async def forecast(
        self,
        *,
        group: str | None = None,
        workers: int | None = None,
        added: Sequence[HypotheticalJobs] = (),
    ) -> Forecast:
        """The load of every slot of the coming week, with `added` jobs and this many workers."""
        ring, now = await self._ring(group), await clock.now(self._database)
        extra = [load for each in added for load in each.loads(ring.start_s, now)]
        slots = await asyncio.to_thread(forecast_slots, ring, now, extra=extra, workers=workers)
        return Forecast(slots, group, workers, ring.job_count + len(extra), len(extra))

    async def score_history(self, reach: timedelta) -> list[ScorePoint]:
        """The score over the time `reach`; of a long time, the worst of each part."""
        step = max(reach / MOST_POINTS, self._score_interval / 10)
        return await scores.list_scores(self._database, reach=reach, step=step)

    async def figures(self) -> BalanceFigures | None:
        """The distribution as a node measured it last; None before the first measurement."""
        return await figures.read_balance(self._database)

    async def _ring(self, group: str | None) -> LoadRing:
        if group is None:
            return await self._placement.ring()
        candidates = await self._placement.candidates(group)
        ring = LoadRing(await clock.now(self._database))
        ring.add_all(each.candidate.load for each in candidates)
        return ring

    async def _record_applied(self, plan: StoredPlan) -> RebalanceResult:
        """Measure the score after the rebalance, store it and log it."""
        failpoint.reach("rebalanced")
        await record_score(self._database, self._placement)
        applied = RebalanceResult(
            plan, measure_distribution(await self._ring(plan.summary.group)).score
        )
        log_rebalance(applied)
        return applied


def log_rebalance(applied: RebalanceResult) -> None:
    logger, plan = log.get_logger(), applied.plan
    logger.info(
        log.REBALANCED if plan.summary.undoes is None else log.REBALANCE_UNDONE,
        moved=len(plan.moves),
        skipped=len(plan.skipped),
        old_score=round(plan.summary.before.score, 3),
        new_score=round(applied.score.score, 3),
        plan_id=str(plan.summary.id),
        group=plan.summary.group,
    )
    # Pinned jobs never move: their skips are not logged.
    stayed = [each for each in plan.skipped if each.reason is not SkipReason.PINNED]
    for each in stayed[:MOST_LOGGED_SKIPS]:
        logger.warning(log.JOB_SKIPPED, job_id=str(plan.uids[each.job]), reason=str(each.reason))
