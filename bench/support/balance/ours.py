"""Our placement of a fleet: one job after another as they arrive, or all at once."""

from datetime import datetime

import numpy as np
from bench.support.balance.fleets import Fleet
from bench.support.balance.judge import Placed

from evenbeat.core.balance.bulk_placement import place_jobs
from evenbeat.core.balance.model import JobLoad, instant_of, seconds_of
from evenbeat.core.balance.phase_search import place_job
from evenbeat.core.balance.ring import LoadRing


def ring_of_pinned(fleet: Fleet, now: datetime) -> LoadRing:
    ring = LoadRing(now)
    ring.add_all(fleet.load(int(i), ring.start_s) for i in np.flatnonzero(fleet.is_pinned))
    return ring


def online(fleet: Fleet) -> Placed:
    # A fleet that grew for months is placed on the ring of its last day: intervals that divide
    # the week meet the same load there.
    ring = ring_of_pinned(fleet, fleet.now)
    first = fleet.created + (fleet.pinned - fleet.created) % fleet.interval
    for i in np.flatnonzero(~fleet.is_pinned):
        now = max(int(fleet.created[i]), ring.start_s)
        found = place_job(ring, fleet.load(int(i), ring.start_s), instant_of(now))
        first[i] = _first_after(int(fleet.created[i]), found.phase_s, int(fleet.interval[i]))
        if fleet.window[i]:
            first[i] = seconds_of(found.first_at)
    return Placed(first, fleet.interval)


def batch(fleet: Fleet) -> Placed:
    ring = ring_of_pinned(fleet, fleet.now)
    first = fleet.created + (fleet.pinned - fleet.created) % fleet.interval
    free = np.flatnonzero(~fleet.is_pinned)
    loads = [fleet.load(int(i), ring.start_s) for i in free]
    for found in place_jobs(ring, loads, fleet.now):
        i = found.job
        first[i] = _first_after(int(fleet.created[i]), found.phase_s, int(fleet.interval[i]))
        if fleet.window[i]:
            first[i] = seconds_of(found.first_at)
    return Placed(first, fleet.interval)


def loads_of(fleet: Fleet, placed: Placed, start_s: int) -> list[JobLoad]:
    """A fleet that has been placed, as the balancer sees it."""
    return [
        fleet.load(i, start_s, int(placed.first[i] % placed.interval[i])) for i in range(len(fleet))
    ]


def _first_after(now: int, phase: int, interval: int) -> int:
    return now + 1 + (phase - now - 1) % interval
