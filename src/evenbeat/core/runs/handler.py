"""What the engine asks of the code for one kind of job, and what it gives to it."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from evenbeat.core.errors import InvalidInput, RunStopped
from evenbeat.core.jobs.model import Cause, Claimed
from evenbeat.core.runs.outcome import Outcome, make_storable
from evenbeat.core.runs.run_log import LEVELS, MOST_LINES, NO_MORE, Level, LogLine
from evenbeat.core.runs.secrets import Secrets, find_no_secret
from evenbeat.core.runs.settle import Recorded

Value = TypeVar("Value")


class HandlerServices(Protocol):
    """What a node gives to its handlers besides the job."""

    def find_secret(self, name: str) -> str | None:
        """The secret of this name, or None where there is none."""
        ...

    def in_thread(self, function: Callable[[], Value]) -> Awaitable[Value]:
        """Call a function that blocks in a thread."""
        ...

    def log(self, line: LogLine) -> None:
        """Store a log line of a run. May be called from any thread."""
        ...

    async def write_log(self) -> None:
        """Return when the log lines so far are stored, or cannot be stored."""
        ...


class RunContext:
    """What a handler gets: the payload, and which attempt at which beat this is.

    It copies nothing of the claimed run: one is made for every run, and most handlers read one
    thing of it.
    """

    __slots__ = ("_claimed", "_is_cancelled", "_lines", "_secrets", "_services")

    def __init__(self, claimed: Claimed, services: HandlerServices | None = None) -> None:
        self._claimed = claimed
        self._services = services
        self._is_cancelled = False
        self._lines = 0
        self._secrets: Secrets | None = None

    @property
    def claimed(self) -> Claimed:
        """For a handler that records the end of its run itself: that needs the run's token."""
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
        """As it was stored: references to secrets are not filled in."""
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
        """Secrets by name. Those that the run reads are masked in its error, result and log."""
        if self._secrets is None:
            find = find_no_secret if self._services is None else self._services.find_secret
            self._secrets = Secrets(find)
        return self._secrets

    @property
    def used_secrets(self) -> Secrets | None:
        """The secrets, if the handler asked for them."""
        return self._secrets

    @property
    def is_cancelled(self) -> bool:
        """Whether the run is to stop: it timed out, a person cancelled it, or its node stops. A
        function in a thread has to check this, since nothing can interrupt a thread."""
        return self._is_cancelled

    def check(self) -> None:
        """Raise RunStopped if the run is to stop; for the loops of functions in threads."""
        if self._is_cancelled:
            raise RunStopped("the run was told to stop")

    def cancel(self) -> None:
        """Tell the handler that the run is to stop. Only the engine calls this."""
        self._is_cancelled = True

    def log(self, message: str, level: Level = "info") -> None:
        """Store a line with the run; `evenbeat runs logs` shows it. May be called from any thread.

        Secrets that the run has read are masked in it. A run has 1,000 lines at most.
        """
        if level not in LEVELS:
            raise InvalidInput("level", f"must be one of {', '.join(LEVELS)}")
        self._lines += 1
        if self._services is None or self._lines > MOST_LINES + 1:
            return
        text = NO_MORE if self._lines > MOST_LINES else make_storable(str(message), self._secrets)
        self._services.log(LogLine(self.run_id, level, text))

    @property
    def has_lines(self) -> bool:
        """Whether the handler has logged anything."""
        return self._lines > 0

    async def write_log(self) -> None:
        """Return when the run's lines are stored. The engine calls this at the end of the run."""
        if self._lines and self._services is not None:
            await self._services.write_log()

    def in_thread(self, function: Callable[[], Value]) -> Awaitable[Value]:
        """Call a function that blocks in a thread; `await` the answer."""
        if self._services is None:
            raise RuntimeError("only a node has threads: this context belongs to none")
        return self._services.in_thread(function)


class Kind(Protocol):
    """A kind of job that can be added, whether or not this process can run it."""

    @property
    def kind(self) -> str: ...

    def check(self, payload: Any) -> None:
        """Raise InvalidInput for a payload that can never work; called when a job is added."""
        ...


class Handler(Kind, Protocol):
    """The code for one kind. If it raises, the run fails, and the stack trace is stored."""

    def run(self, context: RunContext) -> Outcome | Awaitable[Outcome | Recorded]:
        """Do the work, on the node's event loop. It must not block: a function that blocks is
        called by `await context.in_thread(function)`."""
        ...
