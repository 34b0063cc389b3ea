"""The phases of an interval as blocks, each of which meets the same slots."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.balance.model import MINUTE_S, SLOT_S, WEEK_S

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PhaseGrid:
    """Folding a week by an interval: what every block of phases meets, in one pass.

    Block i is the phases from `edges[i]` to before `edges[i + 1]`. Row k of `places` says which
    bin the k-th beat of each block falls into; a beat after the end of the week falls into a bin
    of its own behind the last, which is always empty.
    """

    edges: NDArray[np.int64]
    places: NDArray[np.intp]
    bins: int

    @property
    def is_wide(self) -> bool:
        """Whether the blocks are more than single minutes."""
        return bool(self.edges[1] >= 2 * MINUTE_S)

    @property
    def starts(self) -> NDArray[np.int64]:
        return self.edges[:-1]

    def total(self, bins: Numbers) -> Numbers:
        return _padded(bins)[self.places].sum(0)

    def pieces(self, blocks: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """These blocks, cut into equal pieces of a minute or a little more, and whose they are.

        Equal, because each piece is filled as much as any other.
        """
        low, high = self.edges[blocks], self.edges[blocks + 1]
        counts = np.maximum(1, (high - low) // MINUTE_S)
        owners = np.repeat(np.arange(len(blocks)), counts)
        number = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        low, width, count = low[owners], (high - low)[owners], counts[owners]
        edges = [low + (number + more) * width // count for more in (0, 1)]
        return np.stack(edges, axis=1), blocks[owners]

    def with_landing_bins(self, bin_of_minute: NDArray[np.intp]) -> "PhaseGrid":
        """The same, for beats that land elsewhere than where they are named."""
        beats = np.arange(len(self.places))[:, None] * self.edges[-1] + self.starts
        is_in_week = self.places < self.bins
        minutes = np.where(is_in_week, beats // MINUTE_S, 0)
        return replace(self, places=np.where(is_in_week, bin_of_minute[minutes], self.bins))

    def block_of(self, offset: int) -> int:
        return int(self.blocks_of(np.array([offset]))[0])

    def blocks_of(self, offsets: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self.edges, offsets, side="right") - 1


def is_drifting(interval_s: int) -> bool:
    """Whether its beats come elsewhere every week.

    What such a job meets this week it does not meet in the next.
    """
    return MINUTE_S < interval_s < WEEK_S and WEEK_S % interval_s != 0


def _padded(bins: Numbers) -> Numbers:
    return np.concatenate([bins, [0.0]])


@lru_cache(maxsize=256)
def build_block_grid(interval_s: int) -> PhaseGrid:
    """The widest blocks that meet the same slots.

    Where these are less than a minute, a minute or so is close enough: the slots met differ only
    for beats next to a slot's edge.
    """
    width = gcd(interval_s, SLOT_S)
    return _grid(interval_s, SLOT_S, width) if width >= MINUTE_S else build_minute_grid(interval_s)


@lru_cache(maxsize=256)
def build_minute_grid(interval_s: int, bin_s: int = SLOT_S) -> PhaseGrid:
    """Blocks of a minute or, where the interval is no whole minutes, a little more."""
    return _grid(interval_s, bin_s, MINUTE_S)


def _grid(interval_s: int, bin_s: int, width_s: int) -> PhaseGrid:
    # Of an interval longer than a week, the first week. Blocks are equally wide, give or take a
    # second: the narrower of two would be filled as much as the wider.
    reach = min(interval_s, WEEK_S)
    count = max(1, reach // width_s)
    edges = np.arange(count + 1, dtype=np.int64) * reach // count
    beats = np.arange(0, WEEK_S, reach, dtype=np.int64)[:, None] + edges[:-1]
    bins = WEEK_S // bin_s
    places = np.minimum(beats // bin_s, bins).astype(np.intp)
    return PhaseGrid(edges, places, bins)


@lru_cache(maxsize=1024)
def spread_order(count: int) -> NDArray[np.intp]:
    """0 … count - 1 in van der Corput order: among equals, neighbours are taken far apart."""
    bits = max(1, (count - 1).bit_length())
    reversed_bits = np.zeros(1 << bits, np.intp)
    numbers = np.arange(1 << bits, dtype=np.intp)
    for bit in range(bits):
        reversed_bits |= ((numbers >> bit) & 1) << (bits - 1 - bit)
    return reversed_bits[reversed_bits < count]


def find_emptiest(cost: Numbers) -> int:
    """The place of the least cost; among equals, the first in spread order."""
    order = spread_order(len(cost))
    # Sums in another order differ in their last digits, which must not decide.
    return int(order[np.argmin(np.round(cost[order], 9))])
