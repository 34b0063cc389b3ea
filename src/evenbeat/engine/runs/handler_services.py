"""What a node lends to its handlers: threads for what blocks, secrets by name, and its scribe."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from evenbeat.config import REFERRED_PREFIX
from evenbeat.core.errors import Conflict
from evenbeat.core.runs.run_log import LogLine
from evenbeat.core.runs.secrets import to_variable_name
from evenbeat.engine.runs.run_log_writer import RunLogWriter

Value = TypeVar("Value")
# A certificate with its key has 10 kB.
LARGEST_SECRET = 65_536


@dataclass(frozen=True, slots=True)
class Returned(Generic[Value]):
    value: Value


@dataclass(frozen=True, slots=True)
class Raised:
    error: BaseException


ThreadResult = Returned[Value] | Raised


class NodeServices:
    """Threads that nothing waits for at the end of the process, since none can be interrupted.

    A thread whose run has ended without it lingers. With `most_lingering` of them, new functions
    are refused: each would leave one more, until the machine has none left.
    """

    def __init__(
        self, secrets_dir: Path | None, most_lingering: int, scribe: RunLogWriter | None = None
    ) -> None:
        self._secrets_dir = secrets_dir
        self._most_lingering = most_lingering
        self._scribe = scribe
        self._lingering: set[object] = set()

    @property
    def lingering(self) -> int:
        return len(self._lingering)

    def find_secret(self, name: str) -> str | None:
        """From the environment, else from the file of that name."""
        value = os.environ.get(f"{REFERRED_PREFIX}{to_variable_name(name)}")
        if value or self._secrets_dir is None:
            return value
        try:
            with (self._secrets_dir / name).open(encoding="utf-8") as file:
                # Editors end a file with a newline, and no header can hold one.
                return file.read(LARGEST_SECRET).rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            return None

    def log(self, line: LogLine) -> None:
        if self._scribe is not None:
            self._scribe.take(line)

    async def write_log(self) -> None:
        if self._scribe is not None:
            await self._scribe.write()

    async def in_thread(self, function: Callable[[], Value]) -> Value:
        if self.lingering >= self._most_lingering:
            raise Conflict(
                f"{self.lingering} functions of earlier runs ignore that they were told to stop "
                "and still hold their threads: restart the node, and let them look at "
                "context.is_cancelled"
            )
        ending = start_thread(function)
        try:
            answer = await wait_for_thread(ending)
        finally:
            if not ending.done():
                self._lingering.add(ending)
                ending.add_done_callback(self._lingering.discard)
        match answer:
            case Returned(value):
                return value
            case Raised(KeyboardInterrupt() as error):
                # Ctrl-C comes to the main thread only: this one is the function's own.
                raise RuntimeError("the function raised KeyboardInterrupt") from error
            case Raised(error):
                raise error


def start_thread(function: Callable[[], Value]) -> "asyncio.Future[ThreadResult[Value]]":
    loop = asyncio.get_running_loop()
    ending: asyncio.Future[ThreadResult[Value]] = loop.create_future()

    def work() -> None:
        try:
            answer: ThreadResult[Value] = Returned(function())
        except BaseException as error:
            answer = Raised(error)
        # The loop may be closed by now, and then nobody is left to be told.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ending.set_result, answer)

    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(work,), name="evenbeat-function", daemon=True).start()
    return ending


async def wait_for_thread(ending: "asyncio.Future[ThreadResult[Value]]") -> "ThreadResult[Value]":
    """Wait for a thread. Cancelled once, it is waited for all the same: it looks for itself
    whether to stop, and may have finished. Cancelled twice, it is given up."""
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError as stopped:
        answer = await asyncio.shield(ending)
        if isinstance(answer, Raised):
            raise stopped from answer.error
        return answer
