"""Advice: what a rebalance would gain, shown with the distribution."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime

from evenbeat.core.balance.rebalance import plan_rebalance
from evenbeat.core.balance.ring import LoadRing
from evenbeat.placement.placer import Placer

ACCEPTABLE = "Distribution is acceptable"
ASK = "Ask for a preview to see what a rebalance would gain"
# With more jobs the plan may take seconds, which is too long for a page of the distribution.
MOST_JOBS = 5_000
# Advice that took longer than LONG seconds is kept for REST times as long, even if the load
# changes: no more than a twentieth of the time goes into it.
LONG, REST = 0.5, 20
MOST_GROUPS = 100


@dataclass(frozen=True, slots=True)
class Advice:
    """The score that a rebalance could reach (None: too many jobs to tell), and what to do."""

    attainable_score: float | None
    suggestion: str


@dataclass(frozen=True, slots=True)
class CachedAdvice:
    """Advice, the load that it is about, and until when it holds for any load."""

    advice: Advice
    load: tuple[int, int]
    until: float


class Adviser:
    """Works advice out, and keeps it while the load stays the same."""

    def __init__(self, placement: Placer) -> None:
        self._placement = placement
        self._cached: dict[str | None, CachedAdvice] = {}

    async def advise(self, ring: LoadRing, group: str | None, now: datetime) -> Advice:
        if ring.job_count > MOST_JOBS:
            return Advice(None, ASK)
        load = ring.start_s, hash(ring.minute.tobytes())
        cached = self._cached.get(group)
        if cached is not None and (cached.load == load or time.monotonic() < cached.until):
            return cached.advice
        began = time.monotonic()
        candidates = [each.candidate for each in await self._placement.candidates(group)]
        plan = await asyncio.to_thread(plan_rebalance, candidates, now)
        advice = Advice(plan.attainable_score, plan.suggestion or ACCEPTABLE)
        took = time.monotonic() - began
        if len(self._cached) >= MOST_GROUPS:
            self._cached.clear()
        self._cached[group] = CachedAdvice(
            advice, load, began + (REST * took if took > LONG else 0)
        )
        return advice
