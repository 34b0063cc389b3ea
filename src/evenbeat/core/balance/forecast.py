"""The forecast: what each slot of the coming week will see, and what if there were more jobs."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import numpy as np

from evenbeat.core.balance.bulk_placement import place_jobs
from evenbeat.core.balance.model import MINUTE_S, SLOT_S, JobLoad, SlotForecast
from evenbeat.core.balance.phase_grid import Numbers
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.errors import InvalidInput

_SLOT = timedelta(seconds=SLOT_S)


def forecast_slots(
    ring: LoadRing, now: datetime, *, extra: Iterable[JobLoad] = (), workers: int | None = None
) -> tuple[SlotForecast, ...]:
    """Load and expected concurrency per slot for seven days.

    Extra jobs are placed on a copy of the ring. With a number of workers, runs that find none free
    wait, in turn.
    """
    if workers is not None and workers < 1:
        raise InvalidInput("workers", "must be at least 1")
    added = list(extra)
    if added:
        ring = ring.copy()
        place_jobs(ring, [load for load in added if load.phase_s is None], now)
        ring.add_all(load for load in added if load.phase_s is not None)
    busy = (ring.busy / MINUTE_S).reshape(-1, SLOT_S // MINUTE_S)
    waiting = np.zeros(len(busy)) if workers is None else _waiting(ring, workers)
    return tuple(
        SlotForecast(
            starts_at=ring.start_at + i * _SLOT,
            runs=int(ring.slot[i]),
            concurrency=float(busy[i].mean()),
            peak_concurrency=float(busy[i].max()),
            waiting=timedelta(seconds=round(float(waiting[i]))),
        )
        for i in range(len(busy))
    )


def _waiting(ring: LoadRing, workers: int) -> Numbers:
    """The longest that a run beginning in each slot waits for a worker, in seconds.

    Work that could not be done in its minute is done in the next ones: a tank with an outlet.
    """
    spare = ring.busy - workers * MINUTE_S
    passed = np.cumsum(spare)
    left = passed - np.minimum(np.minimum.accumulate(passed), 0)
    return (left / workers).reshape(-1, SLOT_S // MINUTE_S).max(1)
