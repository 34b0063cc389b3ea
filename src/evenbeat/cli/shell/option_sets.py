"""Sets of options that several commands have: a dataclass, whose fields are the options."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Any


def expand_option_sets(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the fields of its sets for options; it is given the sets, filled in."""
    parameters = inspect.signature(command).parameters
    sets: dict[str, Any] = {
        name: each.annotation for name, each in parameters.items() if is_dataclass(each.annotation)
    }

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, filled_in in sets.items():
            options = {field.name: given.pop(field.name) for field in fields(filled_in)}
            given[name] = filled_in(**options)
        command(**given)

    shown = [
        option
        for name, each in parameters.items()
        for option in (options_of(sets[name]) if name in sets else [each])
    ]
    # Named ones may stand in any order, with a default or without; Typer reads nothing but these.
    named = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in shown]
    called.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in named}
    return called


def options_of(filled_in: Any) -> list[Parameter]:
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(filled_in)
    ]
