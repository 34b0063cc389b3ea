"""Checks that the payloads of all built-in kinds share."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from evenbeat.core.errors import FieldError, InvalidInput


def fields_of(payload: Any) -> dict[str, Any]:
    """The payload as an object; raises InvalidInput if it is none."""
    if not isinstance(payload, dict):
        raise InvalidInput("payload", "must be an object")
    return cast("dict[str, Any]", payload)


def unknown_fields(given: dict[str, Any], known: Sequence[str]) -> list[FieldError]:
    """An error for each field that the kind does not have."""
    return [
        FieldError(f"payload.{name}", f"is not known here; known: {', '.join(known)}")
        for name in given
        if name not in known
    ]


def raise_errors(errors: Iterable[FieldError]) -> None:
    """Raise one InvalidInput that names every error; none without errors."""
    found = list(errors)
    if found:
        raise InvalidInput(found[0].field, found[0].message, more=found[1:])
