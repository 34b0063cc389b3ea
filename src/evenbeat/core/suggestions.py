"""The name that was probably meant, where an unknown name was written."""

import difflib
from collections.abc import Iterable


def find_nearest_name(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message: the known name that is most like it; empty if none is."""
    near = find_nearest_name(name, known)
    return "" if near is None else f"; did you mean {near!r}?"
