"""The payload of a program: its fields and their checks."""

from collections.abc import Iterable
from typing import Any, cast

from evenbeat.core.errors import FieldError
from evenbeat.core.runs.secrets import check_references, find_reference
from evenbeat.handlers.payload_fields import fields_of, raise_errors, unknown_fields

TEXTS = ("shell", "user", "cwd")
FIELDS = ("command", *TEXTS, "stdin", "env", "ok_codes")
CODES = range(256)


def check(payload: Any) -> None:
    """Raise InvalidInput for a payload that could never run."""
    check_references(payload, "payload")
    raise_errors(faults_of(fields_of(payload)))


def faults_of(given: dict[str, Any]) -> Iterable[FieldError]:
    yield from unknown_fields(given, FIELDS)
    for name in TEXTS:
        value = given.get(name)
        if value is not None and (not isinstance(value, str) or not value):
            yield FieldError(f"payload.{name}", "must be text")
    if not is_text(given.get("stdin", "")):
        yield FieldError("payload.stdin", "must be text")
    if not is_command(given.get("command")):
        yield FieldError(
            "payload.command", "must say what to run: text for the shell, or a list of arguments"
        )
    elif isinstance(given["command"], list) and "shell" in given:
        yield FieldError("payload.shell", "goes with a command that is text")
    if not is_environment(given.get("env", {})):
        yield FieldError("payload.env", "must be an object of texts, by names without =")
    if not is_codes(given.get("ok_codes", [0])):
        yield FieldError("payload.ok_codes", "must be a list of exit codes, each from 0 to 255")


def is_text(value: Any) -> bool:
    """Whether it is text, or a reference to a secret, which is text too."""
    return isinstance(value, str) or find_reference(value) is not None


def is_command(command: Any) -> bool:
    if isinstance(command, str):
        return bool(command.strip())
    arguments = cast("list[Any]", command) if isinstance(command, list) else []
    return bool(arguments) and bool(arguments[0]) and all(map(is_text, arguments))


def is_environment(env: Any) -> bool:
    if not isinstance(env, dict):
        return False
    variables = cast("dict[str, Any]", env)
    return all(name and "=" not in name and is_text(text) for name, text in variables.items())


def is_codes(codes: Any) -> bool:
    if not isinstance(codes, list) or not codes:
        return False
    return all(type(code) is int and code in CODES for code in cast("list[Any]", codes))
