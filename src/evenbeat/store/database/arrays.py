"""Columns as arrays, for statements that unnest them."""

from collections.abc import Iterable
from typing import Any


def drop_all_nulls(values: Iterable[Any]) -> list[Any]:
    """These values; empty if each of them is None, since unnest pads with nulls."""
    made = list(values)
    return [] if made.count(None) == len(made) else made
