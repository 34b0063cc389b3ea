"""Typed payloads: a dataclass or a pydantic model in the place of plain JSON.

A payload is untrusted text, so pydantic reads it, as it reads requests and settings.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from evenbeat.core.errors import FieldError, InvalidInput


class PayloadType:
    """The type that the payload of a kind must have."""

    def __init__(self, kind: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def make(self, payload: Any) -> Any:
        """The payload as its type; raises InvalidInput for every field that does not fit."""
        try:
            return self._adapter.validate_python(payload)
        except ValidationError as error:
            # Without the input: it may hold a secret.
            faults = error.errors(include_input=False, include_url=False)
            first, *more = [FieldError(path(fault["loc"]), fault["msg"]) for fault in faults]
        raise InvalidInput(first.field, first.message, more=more)


def find_payload_type(function: Callable[..., Any], parameter: str | None) -> PayloadType | None:
    """The type that this parameter is annotated with, if it is a dataclass or a model.

    A name imported under TYPE_CHECKING cannot be resolved here and counts as none.
    """
    if parameter is None:
        return None
    try:
        kind = inspect.signature(function, eval_str=True).parameters[parameter].annotation
    except NameError:
        return None
    return PayloadType(kind) if isinstance(kind, type) and is_typed(kind) else None


def is_typed(kind: Any) -> bool:
    return is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, BaseModel))


def as_json(payload: Any) -> Any:
    """A typed payload as the JSON that is stored; any other unchanged."""
    kind: Any = payload.__class__
    return TypeAdapter(kind).dump_python(payload, mode="json") if is_typed(kind) else payload


def path(place: Iterable[int | str]) -> str:
    return "payload" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in place
    )
