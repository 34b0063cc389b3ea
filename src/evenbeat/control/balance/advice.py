"""Advice: what a rebalance would gain, said beside the distribution."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime

from evenbeat.core.balance.rebalance import plan_rebalance
from evenbeat.core.balance.ring import LoadRing
from evenbeat.placement.placer import Placer

ACCEPTABLE = "Distribution is acceptable"
ASK = "Ask for a preview to see what a rebalance would gain"
# Beyond this, finding out may take seconds: more than a look at the distribution is worth.
MOST_JOBS = 5_000
# Advice that took long is not worked out again at once, however the load changes: no more than a
# twentieth of the time is spent on it.
LONG, REST = 0.5, 20
MOST_GROUPS = 100


@dataclass(frozen=True, slots=True)
class Advice:
    """How even it could be, and what to do; None: too many jobs to say."""

    attainable_score: float | None
    suggestion: str


@dataclass(frozen=True, slots=True)
class CachedAdvice:
    """Advice, on which load it was given, and until when it holds whatever the load."""

    advice: Advice
    load: tuple[int, int]
    until: float


class Adviser:
    """Gives the same advice as long as the load is the same."""

    def __init__(self, placement: Placer) -> None:
        self._placement = placement
        self._given: dict[str | None, CachedAdvice] = {}

    async def advise(self, ring: LoadRing, group: str | None, now: datetime) -> Advice:
        if ring.job_count > MOST_JOBS:
            return Advice(None, ASK)
        load = ring.start_s, hash(ring.minute.tobytes())
        given = self._given.get(group)
        if given is not None and (given.load == load or time.monotonic() < given.until):
            return given.advice
        began = time.monotonic()
        candidates = [each.candidate for each in await self._placement.candidates(group)]
        plan = await asyncio.to_thread(plan_rebalance, candidates, now)
        advice = Advice(plan.attainable_score, plan.suggestion or ACCEPTABLE)
        took = time.monotonic() - began
        if len(self._given) >= MOST_GROUPS:
            self._given.clear()
        self._given[group] = CachedAdvice(advice, load, began + (REST * took if took > LONG else 0))
        return advice
