"""Windows as masks: which minutes of a week are open, in the window's own zone."""

from datetime import timedelta
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.balance.model import DAY_S, MINUTE_S, WEEK_MINUTES, WEEK_S, instant_of
from evenbeat.core.time.schedules.base.window import Window

Mask = NDArray[np.bool_]
_MINUTE = timedelta(seconds=MINUTE_S)


@lru_cache(maxsize=64)
def open_minutes(window: Window, start_s: int) -> Mask:
    """For every minute of the week from the start, whether the window is open.

    Windows open and close at whole minutes. A clock change within the week is in the mask.
    """
    start, end = instant_of(start_s), instant_of(start_s + WEEK_S)
    is_open = np.zeros(WEEK_MINUTES, np.bool_)
    for opens, closes in window.openings_between(start, end):
        is_open[max(0, (opens - start) // _MINUTE) : (closes - start) // _MINUTE] = True
    is_open.flags.writeable = False
    return is_open


@lru_cache(maxsize=64)
def opening_seconds(window: Window, start_s: int) -> NDArray[np.int64]:
    """The seconds of the week from the start at which the window opens."""
    start, end = instant_of(start_s), instant_of(start_s + WEEK_S)
    found = [
        (opens - start) // _MINUTE * MINUTE_S
        for opens, _ in window.openings_between(start, end)
        if opens >= start
    ]
    return np.array(found, np.int64)


@lru_cache(maxsize=64)
def find_landing_bins(
    window: Window, interval_s: int, start_s: int, bin_s: int
) -> NDArray[np.intp]:
    """The bin that a beat in each minute of the week lands in; the bin behind the last for none.

    A beat outside waits for the opening, if that is far less than an interval away. Shorter
    intervals have a beat waiting at every opening, whatever their phase.
    """
    nowhere = WEEK_S // bin_s
    minutes = np.arange(WEEK_MINUTES, dtype=np.intp)
    opened = opening_seconds(window, start_s)
    if window.outside == "skip" or interval_s < DAY_S or not len(opened):
        waiting = np.full(WEEK_MINUTES, nowhere)
    else:
        following = np.searchsorted(opened, minutes * MINUTE_S) % len(opened)
        waiting = opened[following] // bin_s
    return np.where(open_minutes(window, start_s), minutes * MINUTE_S // bin_s, waiting)
