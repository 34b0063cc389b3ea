"""What the engine asks of the code for one kind of job."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from evenbeat.core.model import Cause
from evenbeat.core.outcome import Outcome


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a handler is told: what to do, and which try of which beat this is."""

    job_uid: UUID
    job_name: str | None
    kind: str
    payload: Any
    run_id: int
    number: int
    attempt: int
    cause: Cause
    beat_at: datetime | None


class Handler(Protocol):
    """The code for one kind. It may raise: that is a failed run, with the stack trace kept."""

    @property
    def kind(self) -> str: ...

    def check(self, payload: Any) -> None:
        """Raise InvalidInput for a payload that can never work: told when the job is written."""
        ...

    async def run(self, context: RunContext) -> Outcome: ...
