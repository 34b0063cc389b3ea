"""echo: returns its payload as its result. For a first job in a new installation."""

from typing import Any

from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done, Outcome


class Echo:
    """Succeeds with any payload."""

    kind = "echo"

    def check(self, payload: Any) -> None:
        """Every payload is accepted."""

    def run(self, context: RunContext) -> Outcome:
        return Done(result=context.payload)
