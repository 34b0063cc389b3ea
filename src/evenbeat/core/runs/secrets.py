"""Secrets by reference: `{"secret": "name"}` stands in a payload where the secret itself must not.

A reference is filled in for one run and never stored. Whatever was filled in is masked in what
the run leaves behind: its error, its stack trace, its result.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, cast
from urllib.parse import quote, quote_plus

from evenbeat.core.errors import InvalidInput, NoSuchSecret

REFERENCE = "secret"
MASK = "(secret)"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
# Of "Bearer x…" an answer may quote the second word alone.
SHORTEST_WORD = 8


def find_no_secret(name: str) -> str | None:
    return None


class Secrets:
    """The secrets that one run may read; those it did read are known to `mask`."""

    def __init__(self, find: Callable[[str], str | None]) -> None:
        self._find = find
        self._masked: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def __getitem__(self, name: str) -> str:
        value = self._find(name) if NAME.fullmatch(name) else None
        if not value:
            raise NoSuchSecret(
                f"there is no secret {name!r} on this node: set EVENBEAT_SECRET_"
                f"{to_variable_name(name)}, or put a file of that name into secrets_dir"
            )
        self.hide(value)
        return value

    def hide(self, value: str) -> None:
        """Mask this too: a part of a secret, or what was made of one."""
        self._masked |= set(find_encodings(value))
        self._pattern = None

    def fill(self, value: Any) -> Any:
        """The same JSON with secrets in the place of references."""
        name = find_reference(value)
        if name is not None:
            return self[name]
        match value:
            case dict():
                items = cast("dict[str, Any]", value)
                return {key: self.fill(item) for key, item in items.items()}
            case list() | tuple():
                return [self.fill(item) for item in cast("list[Any]", value)]
            case _:
                return value

    def mask(self, text: str) -> str:
        if not self._masked:
            return text
        if self._pattern is None:
            # The longest first: a secret may be the beginning of another.
            words = sorted(self._masked, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, words)))
        return self._pattern.sub(MASK, text)

    def mask_json(self, value: Any) -> Any:
        match value:
            case str():
                return self.mask(value)
            case dict():
                items = cast("dict[str, Any]", value)
                return {self.mask(key): self.mask_json(item) for key, item in items.items()}
            case list() | tuple():
                return [self.mask_json(item) for item in cast("list[Any]", value)]
            case _:
                return value


def find_reference(value: Any) -> str | None:
    """The name, where this is a reference."""
    if not isinstance(value, dict):
        return None
    items = cast("dict[str, Any]", value)
    name = items.get(REFERENCE)
    return name if len(items) == 1 and isinstance(name, str) else None


def check_references(value: Any, path: str) -> None:
    """Raise InvalidInput for references whose name no secret can have."""
    name = find_reference(value)
    if name is not None:
        if not NAME.fullmatch(name):
            raise InvalidInput(
                f"{path}.{REFERENCE}",
                "must be a name of up to 100 letters, digits, dots, dashes and underscores",
            )
        return
    for place, item in iterate_parts(value):
        check_references(item, f"{path}{place}")


def holds_reference(value: Any) -> bool:
    return find_reference(value) is not None or any(
        holds_reference(item) for _, item in iterate_parts(value)
    )


def iterate_parts(value: Any) -> Iterable[tuple[str, Any]]:
    match value:
        case dict():
            items = cast("dict[str, Any]", value)
            return [(f".{key}", item) for key, item in items.items()]
        case list() | tuple():
            return [(f"[{at}]", item) for at, item in enumerate(cast("list[Any]", value))]
        case _:
            return []


def to_variable_name(name: str) -> str:
    """The name as environment variables can have it."""
    return re.sub(r"[^A-Z0-9_]", "_", name.upper())


def find_encodings(secret: str) -> Iterable[str]:
    """The secret as it may turn up in an answer: as it is, in a URL, in JSON, in Python."""
    words = [word for word in secret.split() if len(word) >= SHORTEST_WORD]
    for each in (secret, secret.strip(), *words):
        yield from (each, quote(each, safe=""), quote(each), quote_plus(each), repr(each)[1:-1])
        yield from (json.dumps(each, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))
