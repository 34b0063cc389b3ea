"""What a node gives to its handlers: threads for what blocks, secrets by name, the run log."""

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
    """Threads are daemons: nothing can interrupt one, so the process does not wait for them.

    A thread that still works after its run was ended lingers. While `most_lingering` threads do,
    new functions are refused: each could leave one more, until the machine has none left.
    """

    def __init__(
        self, secrets_dir: Path | None, most_lingering: int, run_log: RunLogWriter | None = None
    ) -> None:
        self._secrets_dir = secrets_dir
        self._most_lingering = most_lingering
        self._run_log = run_log
        self._lingering: set[object] = set()

    @property
    def lingering(self) -> int:
        return len(self._lingering)

    def find_secret(self, name: str) -> str | None:
        """Read a secret from the environment, else from the file of that name."""
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
        if self._run_log is not None:
            self._run_log.add_line(line)

    async def write_log(self) -> None:
        if self._run_log is not None:
            await self._run_log.flush()

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
                # Ctrl-C reaches the main thread only: the function itself has raised this.
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
        # The loop may be closed by now; then nothing waits for the answer.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ending.set_result, answer)

    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(work,), name="evenbeat-function", daemon=True).start()
    return ending


async def wait_for_thread(ending: "asyncio.Future[ThreadResult[Value]]") -> "ThreadResult[Value]":
    """Wait for a thread. After a first cancellation this goes on waiting: the function checks
    for itself whether to stop, and may finish. A second cancellation ends the wait."""
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError as stopped:
        answer = await asyncio.shield(ending)
        if isinstance(answer, Raised):
            raise stopped from answer.error
        return answer
