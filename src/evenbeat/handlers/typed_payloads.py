"""Payloads with a type: a dataclass or a pydantic model in the place of plain JSON.

A payload is a stranger's text, so that it is read as requests and settings are: by pydantic.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from evenbeat.core.errors import FieldError, InvalidInput


class PayloadType:
    """What the payload of a kind must be like."""

    def __init__(self, kind: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def make(self, payload: Any) -> Any:
        """The payload as its type; raises InvalidInput for every field that does not fit."""
        try:
            return self._adapter.validate_python(payload)
        except ValidationError as error:
            # Without what was given: a secret may be among it.
            faults = error.errors(include_input=False, include_url=False)
            first, *more = [FieldError(path(fault["loc"]), fault["msg"]) for fault in faults]
        raise InvalidInput(first.field, first.message, more=more)


def find_payload_type(function: Callable[..., Any], parameter: str | None) -> PayloadType | None:
    """The shape that the annotation of this parameter asks for, if it names such a type.

    A name that is there for type checkers alone asks for nothing.
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
    """A payload that is given as its type, as what is stored."""
    kind: Any = payload.__class__
    return TypeAdapter(kind).dump_python(payload, mode="json") if is_typed(kind) else payload


def path(place: Iterable[int | str]) -> str:
    return "payload" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in place
    )
