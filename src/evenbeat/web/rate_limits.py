"""Rate limits: how often one caller may send requests to one process."""

import ipaddress
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from evenbeat.core.errors import TooManyRequests

# After a pause, a caller may send what this many seconds allow at once.
SAVED_UP = 5
# Bounded, since one attacker can have many addresses; the longest silent are dropped first.
MOST_CALLERS = 10_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a caller may still send, for the RateLimit headers."""

    quota: int
    remaining: int
    full_after: float

    def headers(self) -> dict[str, str]:
        return {
            "RateLimit-Policy": f'"caller";q={self.quota};w={SAVED_UP}',
            "RateLimit": f'"caller";r={self.remaining};t={math.ceil(self.full_after)}',
        }


class RateLimiter:
    """A token bucket per caller: it fills at `rate` per second and holds `SAVED_UP` seconds of it.

    Counted in this process alone: two processes allow twice as much.
    """

    def __init__(
        self,
        rate: float,
        what: str = "requests",
        *,
        most: int = MOST_CALLERS,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._most = most
        self._what = what
        self._elapsed = elapsed
        self._full = max(rate * SAVED_UP, 1.0)
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> Allowance:
        """Count one request of a caller. Raises TooManyRequests if it is one too many."""
        now = self._elapsed()
        level, seen_at = self._buckets.pop(caller, (self._full, now))
        level = min(level + (now - seen_at) * self._rate, self._full)
        is_allowed = level >= 1
        level -= is_allowed
        # Moved to the end of the dict: the first entry is the longest silent.
        self._buckets[caller] = level, now
        if len(self._buckets) > self._most:
            del self._buckets[next(iter(self._buckets))]
        if not is_allowed:
            raise TooManyRequests(self._what, (1 - level) / self._rate)
        return Allowance(int(self._full), int(level), (self._full - level) / self._rate)


def network_of_address(address: str) -> str:
    """The address, or its /64 network: one IPv6 client has billions of addresses."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if known.version == 4:
        return address
    return str(ipaddress.ip_network((known, 64), strict=False))
