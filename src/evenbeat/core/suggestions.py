"""What somebody may have meant who wrote a name that is not there."""

import difflib
from collections.abc import Iterable


def find_nearest_name(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """For the end of a message; nothing, where nothing is like it."""
    near = find_nearest_name(name, known)
    return "" if near is None else f"; did you mean {near!r}?"
