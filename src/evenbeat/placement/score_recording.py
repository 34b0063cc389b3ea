"""Records how even the load is, for every process to read."""

import asyncio

from evenbeat.core.balance.plan_records import BalanceFigures
from evenbeat.core.balance.score import measure_distribution
from evenbeat.placement.placer import Placer
from evenbeat.store.balance import rebalance_plans, scores
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Session
from evenbeat.store.ops import figures


async def record_score(session: Session, placer: Placer) -> None:
    """Measure the load at this moment, and store the figures and the score."""
    ring = await placer.ring()
    distribution = await asyncio.to_thread(measure_distribution, ring)
    rebalances = await rebalance_plans.count_rebalances(session)
    balance = BalanceFigures.from_distribution(await clock.now(session), distribution, rebalances)
    await figures.save_balance(session, balance)
    await scores.insert_score(session, distribution.score, distribution.total_jobs)
