"""JSON values: reading them, checking that PostgreSQL can keep them unchanged, comparing them."""

import json
import math
from typing import Any, NoReturn, cast

from evenbeat.core.errors import InvalidInput
from evenbeat.core.limits import DEEPEST_JSON

# orjson reads back no larger integer exactly.
LARGEST_INTEGER = 2**63 - 1


def parse_json(data: bytes | str) -> Any:
    """The value of a JSON text; ValueError says what is wrong with the text."""
    try:
        # Not orjson: it silently makes floats of long integers.
        return json.loads(data, parse_constant=refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which only Python takes for JSON."""
    raise ValueError(f"{name} is no number of JSON")


def is_same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON. In JSON true is not 1; in Python they are equal."""
    if one != other:
        return False
    if isinstance(one, dict):
        mine, theirs = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return all(is_same_json(mine[key], theirs[key]) for key in mine)
    if isinstance(one, list):
        return all(map(is_same_json, cast("list[Any]", one), cast("list[Any]", other)))
    return (type(one) is bool) is (type(other) is bool)


def check_json(value: Any, field: str) -> None:
    """Raise InvalidInput, naming the place, for what could not be stored or read back."""
    if not is_plainly_storable(value, DEEPEST_JSON):
        check_json_deeply(value, field)


def is_plainly_storable(value: Any, levels: int) -> bool:
    """Whether a quick check finds nothing to refuse, as with nearly every payload."""
    kind = cast("Any", type(value))
    if levels < 1:
        return False
    if kind is str:
        return value.isascii() and "\x00" not in value
    if kind is int:
        return -LARGEST_INTEGER <= value <= LARGEST_INTEGER
    if kind is dict:
        for key in value:
            if type(key) is not str or not key.isascii() or "\x00" in key:
                return False
    if kind is dict or kind is list:
        for item in value.values() if kind is dict else value:
            if not is_plainly_storable(item, levels - 1):
                return False
        return True
    return value is None or kind is bool or (kind is float and math.isfinite(value))


def check_json_deeply(value: Any, field: str) -> None:
    """Check every value inside; raise InvalidInput for the first that is at fault."""
    waiting: list[tuple[Any, str, int]] = [(value, field, 1)]
    while waiting:
        here, path, depth = waiting.pop()
        if depth > DEEPEST_JSON:
            raise InvalidInput(field, f"is nested deeper than {DEEPEST_JSON} levels")
        match here:
            case dict():
                items = cast("dict[Any, Any]", here)
                for key, item in items.items():
                    check_key(key, path)
                    waiting.append((item, f"{path}.{key}", depth + 1))
            case _ if is_array(here):
                parts = cast("list[Any]", here)
                waiting.extend((item, f"{path}[{i}]", depth + 1) for i, item in enumerate(parts))
            case _:
                check_scalar(here, path)


def is_array(value: Any) -> bool:
    """Whether it is an array. A named tuple is none: it could also mean an object."""
    return isinstance(value, list) or type(value) is tuple


def check_key(key: Any, path: str) -> None:
    if not isinstance(key, str):
        raise InvalidInput(path, "has a key that is not text")
    check_text(key, path)


def check_scalar(value: Any, path: str) -> None:
    match value:
        case None | bool():
            return
        case str():
            check_text(value, path)
        case int():
            if abs(value) > LARGEST_INTEGER:
                raise InvalidInput(path, "is an integer of more than 64 bits; send it as text")
        # A subclass of float, such as numpy's, is a float to Python but not to the encoder.
        case float() if type(value) is float:
            if not math.isfinite(value):
                raise InvalidInput(path, "must be a finite number")
        case _:
            raise InvalidInput(path, f"is not JSON: {type(value).__name__}")


def check_text(text: str, path: str) -> None:
    """NUL and lone surrogates are JSON, but PostgreSQL cannot store them."""
    if "\x00" in text:
        raise InvalidInput(path, "contains the character NUL, which cannot be stored")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(path, "contains half a surrogate pair, which cannot be stored") from None
