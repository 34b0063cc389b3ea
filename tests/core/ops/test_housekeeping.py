"""How large and how often the pieces of a chore may be."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.ops.housekeeping import (
    LARGEST_PIECE,
    SHORTEST_PAUSE,
    SMALLEST_PIECE,
    TARGET_PIECE_TIME,
    next_piece_size,
    pause_after,
)

MS = timedelta(milliseconds=1)
TIMES = st.timedeltas(timedelta(0), timedelta(minutes=1))


@given(st.integers(SMALLEST_PIECE, LARGEST_PIECE), TIMES)
def test_a_piece_stays_within_its_bounds_and_at_most_doubles(size: int, took: timedelta) -> None:
    following = next_piece_size(size, took)
    assert SMALLEST_PIECE <= following <= min(LARGEST_PIECE, max(2 * size, SMALLEST_PIECE))


@pytest.mark.parametrize(("took", "expected"), [(25, 400), (50, 200), (100, 100), (10_000, 50)])
def test_a_piece_that_took_too_long_is_followed_by_a_smaller_one(took: int, expected: int) -> None:
    assert next_piece_size(400, took * MS) == expected


def test_a_quick_piece_is_followed_by_a_larger_one() -> None:
    assert next_piece_size(100, TARGET_PIECE_TIME / 1000) == 200
    assert next_piece_size(900, TARGET_PIECE_TIME / 1000) == LARGEST_PIECE


@given(TIMES, st.floats(0.01, 0.99))
def test_no_more_than_the_share_is_spent(took: timedelta, share: float) -> None:
    pause = pause_after(took, share)
    assert pause >= SHORTEST_PAUSE
    assert took <= share * (took + pause) + timedelta(microseconds=10)


def test_who_may_take_all_of_the_time_never_rests() -> None:
    assert pause_after(TARGET_PIECE_TIME, 1.0) == timedelta(0)
