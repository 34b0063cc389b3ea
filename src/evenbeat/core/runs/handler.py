"""What the engine asks of the code for one kind of job, and what it gives to it."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from evenbeat.core.errors import InvalidInput, RunStopped
from evenbeat.core.jobs.model import Cause, Claimed
from evenbeat.core.runs.outcome import Outcome
from evenbeat.core.runs.outcome_checks import make_storable
from evenbeat.core.runs.run_log import LEVELS, MOST_LINES, NO_MORE, Level, LogLine
from evenbeat.core.runs.secrets import Secrets, find_no_secret
from evenbeat.core.runs.settle import Recorded

Value = TypeVar("Value")


class HandlerServices(Protocol):
    """What a node lends to its handlers."""

    def find_secret(self, name: str) -> str | None:
        """The secret of this name, or None where there is none."""
        ...

    def in_thread(self, function: Callable[[], Value]) -> Awaitable[Value]:
        """Call a function that blocks beside the loop."""
        ...

    def log(self, line: LogLine) -> None:
        """Keep what a run says; from any thread."""
        ...

    async def write_log(self) -> None:
        """Return when all that was said is written, or cannot be."""
        ...


class RunContext:
    """What a handler is told: what to do, and which try of which beat this is.

    A window on what was claimed: made for every run, and most handlers look at one thing.
    """

    __slots__ = ("_claimed", "_is_cancelled", "_lines", "_secrets", "_toolbox")

    def __init__(self, claimed: Claimed, toolbox: HandlerServices | None = None) -> None:
        self._claimed = claimed
        self._toolbox = toolbox
        self._is_cancelled = False
        self._lines = 0
        self._secrets: Secrets | None = None

    @property
    def claimed(self) -> Claimed:
        """For a handler that writes the end of its run itself, with the token of it."""
        return self._claimed

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
        """As it was written: references to secrets are references still."""
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

    @property
    def secrets(self) -> Secrets:
        """Secrets by name. Those that were looked at are masked in whatever the run leaves."""
        if self._secrets is None:
            find = find_no_secret if self._toolbox is None else self._toolbox.find_secret
            self._secrets = Secrets(find)
        return self._secrets

    @property
    def used_secrets(self) -> Secrets | None:
        """The secrets, if anybody asked for one."""
        return self._secrets

    @property
    def is_cancelled(self) -> bool:
        """Whether the run is to stop: out of time, unwanted, or its node stops. A function in a
        thread has to look, since nothing can interrupt it."""
        return self._is_cancelled

    def check(self) -> None:
        """Raise RunStopped if the run is to stop: for loops of functions in threads."""
        if self._is_cancelled:
            raise RunStopped("the run was told to stop")

    def cancel(self) -> None:
        """For the engine to say."""
        self._is_cancelled = True

    def log(self, message: str, level: Level = "info") -> None:
        """Say something that is kept with the run: `evenbeat runs logs` shows it. From any thread.

        Secrets that the run has read are masked in it. Of one run, 1,000 lines are kept.
        """
        if level not in LEVELS:
            raise InvalidInput("level", f"must be one of {', '.join(LEVELS)}")
        self._lines += 1
        if self._toolbox is None or self._lines > MOST_LINES + 1:
            return
        text = NO_MORE if self._lines > MOST_LINES else make_storable(str(message), self._secrets)
        self._toolbox.log(LogLine(self.run_id, level, text))

    async def write_log(self) -> None:
        """For the engine, at the end of the run."""
        if self._lines and self._toolbox is not None:
            await self._toolbox.write_log()

    def in_thread(self, function: Callable[[], Value]) -> Awaitable[Value]:
        """Call a function that blocks, without holding up the node: `await` what comes back."""
        if self._toolbox is None:
            raise RuntimeError("only a node has threads: this context belongs to none")
        return self._toolbox.in_thread(function)


class Kind(Protocol):
    """A sort of job that can be written down, whether or not a node here can run it."""

    @property
    def kind(self) -> str: ...

    def check(self, payload: Any) -> None:
        """Raise InvalidInput for a payload that can never work: told when the job is written."""
        ...


class Handler(Kind, Protocol):
    """The code for one kind. It may raise: that is a failed run, with the stack trace kept."""

    def run(self, context: RunContext) -> Outcome | Awaitable[Outcome | Recorded]:
        """Do it. An `async def` runs beside others; a plain function is called at once, before
        anything else goes on, and so must never wait. What blocks goes to `context.in_thread`."""
        ...
