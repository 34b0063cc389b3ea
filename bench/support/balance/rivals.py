"""What others do: placements that ours are measured against."""

import hashlib

import numpy as np
from bench.support.balance.fleets import DAY, WEEK, Column, Fleet
from bench.support.balance.judge import SLOT, Placed


def _with_pinned(fleet: Fleet, first: Column, interval: Column) -> Placed:
    """Pinned jobs run where they are pinned, whatever becomes of the others."""
    pinned_first = fleet.created + (fleet.pinned - fleet.created) % fleet.interval
    return Placed(
        np.where(fleet.is_pinned, pinned_first, first),
        np.where(fleet.is_pinned, fleet.interval, interval),
    )


def now_plus_interval(fleet: Fleet) -> Placed:
    return _with_pinned(fleet, fleet.created + fleet.interval, fleet.interval)


def jitter(fleet: Fleet) -> Placed:
    """Now, the interval, and up to a tenth of it at random, at most five minutes."""
    chance = np.random.default_rng(99).random(len(fleet))
    late = (chance * np.minimum(fleet.interval * 0.1, 300)).astype(np.int64)
    return _with_pinned(fleet, fleet.created + fleet.interval + late, fleet.interval)


def random_phase(fleet: Fleet) -> Placed:
    chance = np.random.default_rng(99).random(len(fleet))
    first = fleet.created + 1 + (chance * fleet.interval).astype(np.int64)
    return _with_pinned(fleet, first, fleet.interval)


def hashed(fleet: Fleet) -> Placed:
    """A hash of the name picks the second of the interval."""
    digests = (hashlib.sha256(b"job %d" % i).digest() for i in range(len(fleet)))
    numbers = np.array([int.from_bytes(digest[:7], "big") for digest in digests], np.int64)
    first = fleet.created + 1 + (numbers - fleet.created - 1) % fleet.interval
    return _with_pinned(fleet, first, fleet.interval)


def hashed_minute(fleet: Fleet) -> Placed:
    """A hash of the name picks the minute of the interval, at second 0."""
    digests = (hashlib.sha256(b"job %d" % i).digest() for i in range(len(fleet)))
    numbers = np.array([int.from_bytes(digest[:7], "big") for digest in digests], np.int64)
    phase = numbers % np.maximum(1, fleet.interval // 60) * 60
    first = fleet.created + 1 + (phase - fleet.created - 1) % fleet.interval
    return _with_pinned(fleet, first, fleet.interval)


def next_run_slots(fleet: Fleet) -> Placed:
    """The self-balancing scheduler that came before, as its document describes it.

    The emptiest slot of the next 24 hours (or the interval) by the *next* run of every job; the
    interval becomes whole slots. With runs that end at once, the map follows from first slots.
    """
    step = np.maximum(1, fleet.interval // SLOT)
    pinned_first = fleet.created + (fleet.pinned - fleet.created) % fleet.interval
    first = np.zeros(len(fleet), np.int64)
    held, held_from = np.zeros(0, np.int64), -1
    for i in range(len(fleet)):
        slot = int(fleet.created[i]) // SLOT
        if slot != held_from:
            behind = np.maximum(0, -(-(slot - first[:i]) // step[:i]))
            held = np.bincount(first[:i] + behind * step[:i] - slot, minlength=WEEK // SLOT + 2)
            held_from = slot
        if fleet.is_pinned[i]:
            first[i] = pinned_first[i] // SLOT
        else:
            reach = max(DAY, int(fleet.interval[i])) // SLOT
            first[i] = slot + int(np.argmin(held[:reach]))
        held[first[i] - slot] += 1
    return _with_pinned(fleet, first * SLOT, step * SLOT)


ALL = {
    "now + interval": now_plus_interval,
    "jitter": jitter,
    "random phase": random_phase,
    "hashed, minute": hashed_minute,
    "hashed, second": hashed,
    "slots by next run": next_run_slots,
}
