"""Pressure: what the beats of a phase would meet, slot by slot and minute by minute.

Load counts relative to the average of the week, so that starts and work can be added up, and so
that a few jobs are spread by the same rules as a million.
"""

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.balance.model import MINUTE_S, SLOT_S, WEEK_MINUTES, JobLoad
from evenbeat.core.balance.phase_grid import Numbers
from evenbeat.core.balance.ring import Counts, LoadRing
from evenbeat.core.balance.window_mask import open_minutes

Places = NDArray[np.intp]

# What counts beside other starts: work going on, and every beat that would raise the peak of the
# week. Chosen by `./dev bench balance`.
BUSY_WEIGHT = 1.0
PEAK_WEIGHT = 1.0
# What stands lower than the peak by more than this share of it is no part of the peak.
_TOP = 0.01
# How much fuller than other times a preferred one may be before these are as good.
PREFERENCE = 0.5
# In an empty week too, the preferred times come first.
_PREFERRED_FIRST = 0.1


def slot_congestion(ring: LoadRing, load: JobLoad, slots: Places) -> Numbers:
    """Of phases whose beats fall into these slots: row k is the k-th beat of each phase."""
    work = BUSY_WEIGHT * _busy(ring, load).reshape(-1, SLOT_S // MINUTE_S).mean(1)
    if load.prefers is None:
        return _congestion(ring.slot, work, slots)
    preferred = open_minutes(load.prefers, ring.start_s).reshape(-1, SLOT_S // MINUTE_S).mean(1)
    # Times that it prefers seem emptier than they are.
    felt = ring.slot / (1 + PREFERENCE * preferred)
    return _congestion(felt, work - _PREFERRED_FIRST * preferred, slots)


def minute_congestion(ring: LoadRing, load: JobLoad, minutes: Places) -> Numbers:
    """Of phases whose beats fall into these minutes."""
    return _congestion(ring.minute, BUSY_WEIGHT * _busy(ring, load), minutes)


def _congestion(starts: Counts | Numbers, more: Numbers, places: Places) -> Numbers:
    """Other starts and more on average, and the peak; the place behind the last is nowhere.

    To be fuller than the average is no harm in itself; to make the peak higher is. So beats at the
    peak are added up: a phase that meets it twice is worse than one that meets it once.
    """
    beats = np.maximum((places < len(starts)).sum(0), 1)
    met = np.append(starts, 0)[places]
    peak = max(1.0, float(starts.max()))
    above = np.maximum(met - (1 - _TOP) * peak, 0).sum(0) / (_TOP * peak)
    average = met.sum(0) / max(1e-9, float(starts.mean())) + np.append(more, 0.0)[places].sum(0)
    return average / beats + PEAK_WEIGHT * above


def _busy(ring: LoadRing, load: JobLoad) -> Numbers:
    """The work going on, on average over as long as a run of the job takes from each minute on."""
    minutes, busy = (
        max(1, round(load.cost_s / MINUTE_S)),
        ring.busy / max(1e-9, float(ring.busy.mean())),
    )
    if minutes == 1:
        return busy
    summed = np.concatenate([[0.0], np.cumsum(np.concatenate([busy, busy[:minutes]]))])
    return (summed[minutes : minutes + WEEK_MINUTES] - summed[:WEEK_MINUTES]) / minutes
