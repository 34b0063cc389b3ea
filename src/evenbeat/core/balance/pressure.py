"""Pressure: what a start would meet in each slot and minute of the week.

Load counts relative to the average of the week, so that starts and work can be added up, and so
that a few jobs are spread by the same rules as a million.
"""

import numpy as np

from evenbeat.core.balance.grid import Numbers
from evenbeat.core.balance.mask import open_minutes
from evenbeat.core.balance.model import MINUTE_S, SLOT_S, WEEK_MINUTES, Load
from evenbeat.core.balance.ring import Counts, LoadRing
from evenbeat.core.schedules.clockwork.window import Window

# What work going on counts, beside other starts. Chosen by `./dev bench balance`.
BUSY = 1.0
# How much fuller than other times a preferred one may be before these are as good.
PREFERENCE = 0.5
# In an empty week too, the preferred times come first.
_PREFERRED_FIRST = 0.1
# What stands lower than the peak by more than this share of it is no part of the peak.
_TOP = 0.01


def felt(ring: LoadRing, load: Load) -> Numbers:
    """The slots as a job sees them: times that it prefers seem emptier than they are."""
    slots = ring.slot.astype(np.float64)
    if load.prefers is None:
        return slots
    return slots / (1 + PREFERENCE * _preferred(ring, load.prefers))


def slot_pressure(ring: LoadRing, load: Load, slots: Numbers) -> Numbers:
    """What a start in each slot would meet: other starts, and work going on while it runs."""
    busy = _busy(ring, load).reshape(-1, SLOT_S // MINUTE_S).mean(1)
    pressure = _relative(slots) + BUSY * busy
    if load.prefers is not None:
        pressure -= _PREFERRED_FIRST * _preferred(ring, load.prefers)
    return pressure


def minute_pressure(ring: LoadRing, load: Load) -> Numbers:
    """What a start in each minute would meet."""
    return _relative(ring.minute) + BUSY * _busy(ring, load)


def near_peak(load: Counts | Numbers) -> Numbers:
    """1 for the fullest of the week, and nothing for those well below it.

    To be fuller than the average is no harm in itself; to make the peak higher is.
    """
    below_peak = 1 - load / max(1.0, float(load.max()))
    return (1 - below_peak / _TOP).clip(0)


def _relative(load: Counts | Numbers) -> Numbers:
    """The load as a multiple of its average."""
    return load / max(1e-9, float(load.mean()))


def _preferred(ring: LoadRing, window: Window) -> Numbers:
    """How much of each slot is within the window, from 0 to 1."""
    return open_minutes(window, ring.start_s).reshape(-1, SLOT_S // MINUTE_S).mean(1)


def _busy(ring: LoadRing, load: Load) -> Numbers:
    """The work going on, on average over as long as a run of the job takes from each minute on."""
    minutes, busy = max(1, round(load.cost_s / MINUTE_S)), _relative(ring.busy)
    if minutes == 1:
        return busy
    summed = np.concatenate([[0.0], np.cumsum(np.concatenate([busy, busy[:minutes]]))])
    return (summed[minutes : minutes + WEEK_MINUTES] - summed[:WEEK_MINUTES]) / minutes
