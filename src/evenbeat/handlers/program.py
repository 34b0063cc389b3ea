"""program: known, so that the lines of a crontab can be taken in; they wait to be served.

No node does that by itself: it would give a shell to whoever may write jobs. What serves the kind
is an app's own `@eb.handler("program")`.
"""

from typing import Any, cast

from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.handlers.http_payload import fields_of

TEXTS = ("command", "shell", "stdin", "user")
FIELDS = (*TEXTS, "env")


class Program:
    """A kind without a handler."""

    kind = "program"

    def check(self, payload: Any) -> None:
        given = fields_of(payload)
        faults = [
            FieldError(f"payload.{name}", f"is not known here; known: {', '.join(FIELDS)}")
            for name in given
            if name not in FIELDS
        ]
        faults += [
            FieldError(f"payload.{name}", "must be text")
            for name in TEXTS
            if not isinstance(given.get(name), str | None)
        ]
        if not given.get("command"):
            faults.append(FieldError("payload.command", "is missing: it says what to run"))
        if not is_environment(given.get("env", {})):
            faults.append(FieldError("payload.env", "must be an object of texts"))
        if faults:
            raise InvalidInput(faults[0].field, faults[0].message, more=faults[1:])


def is_environment(env: Any) -> bool:
    if not isinstance(env, dict):
        return False
    return all(isinstance(value, str) for value in cast("dict[Any, Any]", env).values())
