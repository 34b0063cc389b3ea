"""Values that are made for every run: no code changes one, and they cost little to make."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen_value(made: type[Class]) -> type[Class]:
    """A frozen dataclass for the type checker, and a plain one when the program runs.

    To make one that is frozen at run time takes five times as long, and the values of one run
    have some forty fields.
    """
    return dataclass(slots=True, unsafe_hash=True)(made)
