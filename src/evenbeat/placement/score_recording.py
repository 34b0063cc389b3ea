"""Keeping the score: how even the load is, written down for all to read."""

import asyncio

from evenbeat.core.balance.plan_records import BalanceFigures
from evenbeat.core.balance.score import measure_distribution
from evenbeat.placement.placer import Placer
from evenbeat.store.balance import rebalance_plans, scores
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Session
from evenbeat.store.ops import figures


async def record_score(session: Session, placement: Placer) -> None:
    """Look at the load as it is at this moment, and write down what everybody wants to know."""
    ring = await placement.ring()
    found = await asyncio.to_thread(measure_distribution, ring)
    rebalances = await rebalance_plans.count_rebalances(session)
    taken = BalanceFigures.from_distribution(await clock.now(session), found, rebalances)
    await figures.save_balance(session, taken)
    await scores.insert_score(session, found.score, found.total_jobs)
