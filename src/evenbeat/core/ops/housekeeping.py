"""Housekeeping: what a chore is, and how large and how often its pieces may be."""

from dataclasses import dataclass
from datetime import datetime, timedelta

# A piece should take this long: short enough that no claim waits for its rows or its disk writes.
TARGET_PIECE_TIME = timedelta(milliseconds=25)
SMALLEST_PIECE, LARGEST_PIECE = 50, 1000
SHORTEST_PAUSE = timedelta(milliseconds=5)


@dataclass(frozen=True, slots=True)
class Chore:
    """Something that has to be done again and again, and how far it has come."""

    name: str
    # Done up to this key in the present round.
    cursor: int
    # How far counting may go.
    goal: int
    next_at: datetime
    last_at: datetime | None = None
    # What the last round came to: rows removed, or counted, and the time spent on them.
    last_count: int = 0
    last_took: timedelta = timedelta(0)
    total_count: int = 0
    # Time to begin with the first key again.
    is_sweep_due: bool = False
    # Everything up to the goal has either happened or never will.
    is_settled: bool = False


@dataclass(frozen=True, slots=True)
class PieceResult:
    """What a piece of a chore came to: `count` rows, up to `cursor`."""

    cursor: int
    count: int
    is_end: bool
    # It began with the first key.
    is_sweep: bool = False
    # The time that the server spent on it; None: not measured, so the whole time counts.
    spent: timedelta | None = None


def next_piece_size(size: int, took: timedelta) -> int:
    """As many rows as would have taken the wanted time; at most twice as many as before."""
    fitting = size * TARGET_PIECE_TIME / max(took, TARGET_PIECE_TIME / 100)
    return round(min(max(fitting, SMALLEST_PIECE), size * 2, LARGEST_PIECE))


def pause_after(took: timedelta, share: float) -> timedelta:
    """How long to rest after a piece, so that no more than this share of time is spent on them."""
    return max(took * (1 / share - 1), SHORTEST_PAUSE) if share < 1 else timedelta(0)
