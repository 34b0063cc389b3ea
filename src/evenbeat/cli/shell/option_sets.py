"""Sets of options that several commands share: dataclasses whose fields are the options."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Any


def expand_option_sets(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a set by the options of that set.

    The command still gets the set, made from the options that were given.
    """
    parameters = inspect.signature(command).parameters
    sets: dict[str, Any] = {
        name: each.annotation for name, each in parameters.items() if is_dataclass(each.annotation)
    }

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, option_set in sets.items():
            options = {field.name: given.pop(field.name) for field in fields(option_set)}
            given[name] = option_set(**options)
        command(**given)

    shown = [
        option
        for name, each in parameters.items()
        for option in (options_of(sets[name]) if name in sets else [each])
    ]
    # Keyword-only parameters may have a default or not, in any order. Typer reads only these.
    named = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in shown]
    called.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in named}
    return called


def options_of(option_set: Any) -> list[Parameter]:
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(option_set)
    ]
