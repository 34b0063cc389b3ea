"""Rounds of a benchmark within a budget of time, with a line of progress for each."""

import sys
import time
from collections.abc import Iterator

# The whole benchmark ends within five minutes: its server needs some seconds to start and stop.
BUDGET = 240.0


def say(text: str) -> None:
    """Print a line of progress; the figures alone go to standard output."""
    print(text, file=sys.stderr, flush=True)


def rounds_within(most: int, *, seconds: float = BUDGET) -> Iterator[int]:
    """Up to `most` rounds; none begins that would not end in time if it took as long as the last.

    There is always one: its ratios are whole, only less sure than the median of three.
    """
    began = time.monotonic()
    for number in range(1, most + 1):
        round_began = time.monotonic()
        say(f"round {number} of {most} …")
        yield number
        took, left = time.monotonic() - round_began, seconds - (time.monotonic() - began)
        if number < most and took > left:
            say(f"{number} of {most} rounds: another one of {took:.0f} s would take too long")
            return
