"""Fleets of jobs, the same every time, for judging where placements put them.

Columns of whole seconds; instants are seconds since the epoch. `pinned` is the phase of a job that
may not be moved, and -1 for the others; `window` the name of a window, or none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.balance.model import DAY_S, HOUR_S, MINUTE_S, WEEK_S, JobLoad, instant_of
from evenbeat.core.time.schedules.base.window import Window

Column = NDArray[np.int64]
Mix = dict[int, float]
MINUTE, HOUR, DAY, WEEK = MINUTE_S, HOUR_S, DAY_S, WEEK_S
# A Wednesday morning, on no slot boundary: 2026-02-04 10:07:23 UTC.
NOW = 1_770_199_643

CRAWLS: Mix = {
    5 * MINUTE: 0.03,
    10 * MINUTE: 0.04,
    15 * MINUTE: 0.08,
    30 * MINUTE: 0.15,
    HOUR: 0.20,
    2 * HOUR: 0.08,
    3 * HOUR: 0.07,
    6 * HOUR: 0.12,
    12 * HOUR: 0.08,
    DAY: 0.12,
    WEEK: 0.03,
}
# What people also type: hardly anything here is a multiple of a slot.
ODD: Mix = {
    7 * MINUTE: 0.06,
    10 * MINUTE: 0.08,
    12 * MINUTE: 0.06,
    20 * MINUTE: 0.12,
    25 * MINUTE: 0.08,
    40 * MINUTE: 0.10,
    50 * MINUTE: 0.10,
    90 * MINUTE: 0.12,
    100 * MINUTE: 0.08,
    5 * HOUR: 0.08,
    7 * HOUR: 0.06,
    10 * HOUR: 0.06,
}
BACKUPS: Mix = {HOUR: 0.15, 4 * HOUR: 0.15, 8 * HOUR: 0.2, DAY: 0.4, WEEK: 0.1}
PRIMES: Mix = {61: 0.1, 97: 0.1, 433: 0.1, 1009: 0.2, 3607: 0.2, 7919: 0.15, 86_399: 0.15}
WINDOWS = {
    "small hours": Window.parse("01:00-05:00"),
    "at night": Window.parse("22:00-06:00 America/New_York"),
    "at work": Window.parse("mon-fri 09:00-17:00 Europe/Berlin outside=skip"),
}


@dataclass(frozen=True)
class Fleet:
    """Jobs in the order in which they were created."""

    name: str
    interval: Column
    created: Column
    cost: Column
    pinned: Column
    window: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.interval)

    @property
    def is_pinned(self) -> NDArray[np.bool_]:
        return self.pinned >= 0

    @property
    def is_windowed(self) -> NDArray[np.bool_]:
        return np.array([name is not None for name in self.window], np.bool_)

    @property
    def now(self) -> datetime:
        return instant_of(int(self.created.max()) + 1)

    def window_of(self, i: int) -> Window | None:
        name = self.window[i]
        return WINDOWS[name] if name else None

    def load(self, i: int, start_s: int, phase: int | None = None) -> JobLoad:
        """A job as the balancer sees it; pinned ones beat on for three weeks from the start."""
        interval, cost = int(self.interval[i]), int(self.cost[i])
        if self.pinned[i] < 0:
            return JobLoad(i, interval, phase, cost, window=self.window_of(i))
        first = start_s + (int(self.pinned[i]) - start_s) % interval
        return JobLoad(i, cost_s=cost, pinned_at=tuple(range(first, start_s + 3 * WEEK, interval)))


def _fleet(name: str, interval: Column, created: Column, **columns: Column) -> Fleet:
    count = len(interval)
    order = np.argsort(created, kind="stable")
    cost = columns.get("cost", np.full(count, 60))
    pinned = columns.get("pinned", np.full(count, -1))
    return Fleet(name, interval[order], created[order], cost[order], pinned[order], (None,) * count)


def _draw(random: np.random.Generator, mix: Mix, count: int) -> Column:
    shares = np.array(list(mix.values()))
    return random.choice(np.array(list(mix), np.int64), size=count, p=shares / shares.sum())


def _at_once(random: np.random.Generator, count: int) -> Column:
    return NOW + np.sort(random.integers(0, MINUTE, count))


def crawl_burst(count: int = 10_000, seed: int = 1) -> Fleet:
    """An import: mixed intervals, all created within a minute."""
    random = np.random.default_rng(seed)
    created = _at_once(random, count)
    return _fleet("crawl_burst", _draw(random, CRAWLS, count), created)


def growth(count: int = 10_000, seed: int = 2, days: int = 90) -> Fleet:
    """The same mixture, grown in office hours over a season, a third of it in imports."""
    random = np.random.default_rng(seed)
    began = NOW // DAY * DAY - days * DAY
    day = random.integers(0, days, 2 * count)
    # The epoch was a Thursday.
    day = day[(began // DAY + day + 3) % 7 < 5][: count - count // 3]
    time = np.clip(random.normal(13.5 * HOUR, 2 * HOUR, len(day)), 0, DAY - 1).astype(np.int64)
    imports = began + random.integers(0, days, 12) * DAY + random.integers(8, 18, 12) * HOUR
    left = count - len(day)
    bulk = random.choice(imports, left) + random.integers(0, 2 * MINUTE, left)
    created = np.concatenate([began + day * DAY + time, bulk])
    return _fleet("growth", _draw(random, CRAWLS, count), created)


def cron_mix(count: int = 5_000, seed: int = 3) -> Fleet:
    """Half of the jobs pinned where people pin them: midnight, the full hour, Sunday."""
    random = np.random.default_rng(seed)
    half = count // 2
    zero = np.zeros(half, np.int64)
    kind = random.choice(6, half, p=[0.40, 0.20, 0.15, 0.10, 0.10, 0.05])
    pinned_interval = np.choose(kind, [DAY, DAY, HOUR, 15 * MINUTE, DAY, WEEK])
    small_hours = random.choice([2, 3, 4, 6], half) * HOUR
    any_half_hour = random.integers(0, 48, half) * 30 * MINUTE
    # Three days after the epoch was a Sunday.
    phase = np.choose(kind, [zero, small_hours, zero, zero, any_half_hour, zero + 3 * DAY])
    interval = np.concatenate([pinned_interval, _draw(random, CRAWLS, count - half)])
    pinned = np.concatenate([phase, np.full(count - half, -1)])
    created = NOW + random.integers(0, MINUTE, count)
    return _fleet("cron_mix", interval, created, pinned=pinned)


def heavy_tail(count: int = 5_000, seed: int = 4, mix: Mix = CRAWLS) -> Fleet:
    """Durations that differ a thousandfold: log-normal, up to three hours."""
    random = np.random.default_rng(seed)
    interval = _draw(random, mix, count)
    lasting = np.maximum(1, random.lognormal(np.log(20), 1.4, count))
    cost = np.minimum(lasting, np.minimum(0.8 * interval, 3 * HOUR)).round().astype(np.int64)
    return _fleet("heavy_tail", interval, _at_once(random, count), cost=cost)


def odd_intervals(count: int = 5_000, seed: int = 5) -> Fleet:
    """Intervals that neither slots nor days are multiples of."""
    random = np.random.default_rng(seed)
    return _fleet("odd_intervals", _draw(random, ODD, count), _at_once(random, count))


def off_peak(count: int = 3_000, seed: int = 6) -> Fleet:
    """Every third job is daily and may only run from 01:00 to 05:00."""
    random = np.random.default_rng(seed)
    interval = _draw(random, CRAWLS, count)
    interval[::3] = DAY
    fleet = _fleet("off_peak", interval, _at_once(random, count))
    windows = tuple("small hours" if i % 3 == 0 else None for i in range(count))
    return Fleet(**{**vars(fleet), "window": windows})


def small(count: int = 42, seed: int = 7) -> Fleet:
    """A few dozen jobs, added in the course of a month."""
    random = np.random.default_rng(seed)
    mix = {30 * MINUTE: 0.2, HOUR: 0.3, 6 * HOUR: 0.3, DAY: 0.2}
    created = NOW + np.sort(random.integers(0, 30 * DAY, count))
    return _fleet("small", _draw(random, mix, count), created)


def backups(count: int = 1_500, seed: int = 9) -> Fleet:
    """Few beats and long runs, a quarter of an hour at the median; half are bound to the night."""
    random = np.random.default_rng(seed)
    interval = _draw(random, BACKUPS, count)
    lasting = np.minimum(random.lognormal(np.log(15 * MINUTE), 0.9, count), 0.5 * interval)
    cost = np.maximum(1, lasting).round().astype(np.int64)
    fleet = _fleet("backups", interval, _at_once(random, count), cost=cost)
    windows = tuple("at night" if t >= DAY and i % 2 else None for i, t in enumerate(interval))
    return Fleet(**{**vars(fleet), "window": windows})


def primes(count: int = 4_000, seed: int = 10) -> Fleet:
    """Intervals of prime numbers of seconds: no two rhythms ever meet again within the week."""
    random = np.random.default_rng(seed)
    return _fleet("primes", _draw(random, PRIMES, count), _at_once(random, count))


def office(count: int = 800, seed: int = 11) -> Fleet:
    """A small company: a pinned nightly batch, reports in office hours, frequent checks."""
    random = np.random.default_rng(seed)
    mix = {10 * MINUTE: 0.2, 30 * MINUTE: 0.2, HOUR: 0.3, 4 * HOUR: 0.1, DAY: 0.2}
    interval = _draw(random, mix, count)
    pinned = np.full(count, -1)
    nightly = np.flatnonzero(interval == DAY)[::2]
    pinned[nightly] = 2 * HOUR
    created = NOW - np.sort(random.integers(0, 300 * DAY, count))[::-1]
    fleet = _fleet("office", interval, created, pinned=pinned)
    at_work = (interval == HOUR) & (np.arange(count) % 3 == 0)
    windows = tuple("at work" if bound else None for bound in at_work)
    return Fleet(**{**vars(fleet), "window": windows})


def scaled(count: int, seed: int = 8) -> Fleet:
    """The mixture of crawls at any size, for timing."""
    random = np.random.default_rng(seed)
    created = _at_once(random, count)
    return _fleet(f"scaled {count:,}", _draw(random, CRAWLS, count), created)


ALL: tuple[Callable[[], Fleet], ...] = (
    *(crawl_burst, growth, cron_mix, heavy_tail, odd_intervals, off_peak, small),
    *(backups, primes, office),
)
