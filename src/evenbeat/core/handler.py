"""What the engine asks of the code for one kind of job."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from evenbeat.core.model import Cause, Claimed
from evenbeat.core.outcome import Outcome


class RunContext:
    """What a handler is told: what to do, and which try of which beat this is.

    A window on what was claimed: made for every run, and most handlers look at one thing.
    """

    __slots__ = ("_claimed",)

    def __init__(self, claimed: Claimed) -> None:
        self._claimed = claimed

    @property
    def job_uid(self) -> UUID:
        return self._claimed.uid

    @property
    def job_name(self) -> str | None:
        return self._claimed.definition.name

    @property
    def kind(self) -> str:
        return self._claimed.definition.kind

    @property
    def payload(self) -> Any:
        return self._claimed.definition.payload

    @property
    def run_id(self) -> int:
        return self._claimed.run.id

    @property
    def number(self) -> int:
        return self._claimed.run.number

    @property
    def attempt(self) -> int:
        return self._claimed.run.attempt

    @property
    def cause(self) -> Cause:
        return self._claimed.run.cause

    @property
    def beat_at(self) -> datetime | None:
        return self._claimed.run.beat_at


class Handler(Protocol):
    """The code for one kind. It may raise: that is a failed run, with the stack trace kept."""

    @property
    def kind(self) -> str: ...

    def check(self, payload: Any) -> None:
        """Raise InvalidInput for a payload that can never work: told when the job is written."""
        ...

    def run(self, context: RunContext) -> Outcome | Awaitable[Outcome]:
        """Do it. An `async def` runs beside others; a plain function is called at once, before
        anything else goes on, and so must never wait."""
        ...
