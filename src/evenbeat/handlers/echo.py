"""echo: gives its payload back as its result. The first job of every new installation."""

from typing import Any

from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done, Outcome


class Echo:
    """Always works."""

    kind = "echo"

    def check(self, payload: Any) -> None:
        """Any payload can be given back."""

    def run(self, context: RunContext) -> Outcome:
        return Done(result=context.payload)
