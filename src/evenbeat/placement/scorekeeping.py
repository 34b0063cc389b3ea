"""Keeping the score: how even the load is, written down for all to read."""

import asyncio

from evenbeat.core.balance.record import BalanceFigures
from evenbeat.core.balance.score import distribution
from evenbeat.placement.placement import Placement
from evenbeat.store.balance import rebalance_plans, scores
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Session
from evenbeat.store.ops import figures


async def keep_score(session: Session, placement: Placement) -> None:
    """Look at the load as it is at this moment, and write down what everybody wants to know."""
    ring = await placement.ring()
    found = await asyncio.to_thread(distribution, ring)
    rebalances = await rebalance_plans.rebalances(session)
    taken = BalanceFigures.of(await clock.now(session), found, rebalances)
    await figures.save_balance(session, taken)
    await scores.add(session, found.score, found.total_jobs)
