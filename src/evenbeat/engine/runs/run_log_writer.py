"""The scribe: writes down what runs say, for all runs of a node together."""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from evenbeat.core.runs.run_log import LogLine
from evenbeat.engine.runs.recorder import RETRYABLE_ERRORS, UNSTORABLE
from evenbeat.observe import log
from evenbeat.store.database.pool import Database
from evenbeat.store.runs import run_logs

# Lines may be long: a thousand such would not be written within the time of a statement.
LARGEST_BATCH, LONGEST_BATCH = 1000, 1_000_000
# While the database is away, so many lines and characters wait for it.
MOST_WAITING, LONGEST_WAITING = 20_000, 20_000_000
FULL = "too many are waiting to be written"


class RunLogWriter:
    """Lines are written in the order in which they were said, and wait until they are.

    Where too many wait, what is said next is lost, as in a run that says too much.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # Held for moments: runs speak from many threads.
        self._lock = threading.Lock()
        self._waiting: deque[LogLine] = deque()
        self._length = 0
        # How many have left the queue, ever.
        self._gone = 0
        self._lost: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        # One batch at a time: two at once could come in either order.
        self._writing: asyncio.Task[bool] | None = None

    def take(self, line: LogLine) -> None:
        """From any thread."""
        with self._lock:
            if len(self._waiting) >= MOST_WAITING or self._length >= LONGEST_WAITING:
                self._lost[FULL] += 1
                return
            was_enough = self._is_enough()
            self._waiting.append(line)
            self._length += len(line.message)
            is_due = self._is_enough() and not was_enough
        # Once: while the database is away, each further line would only be one more try.
        if is_due and self._loop is not None:
            # The loop may be closed by now, and then nothing is left to write with.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._begin, self._loop)

    async def write(self) -> None:
        """Return when all that has been said by now is written, or cannot be. No run fails for
        that: what it did is what counts."""
        self._loop = asyncio.get_running_loop()
        until = self._gone + len(self._waiting)
        while self._gone < until:
            # Of those who wait, one may be told to stop: the batch is everybody's, and cut off it
            # would be written again.
            is_written = await asyncio.shield(self._begin(self._loop))
            # Nobody tries again at once: one after the other, they would wait for each other.
            if not is_written:
                return

    def _is_enough(self) -> bool:
        """Whether there is a batch that nobody has to wait for."""
        return len(self._waiting) >= LARGEST_BATCH or self._length >= LONGEST_BATCH

    def _begin(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Task[bool]":
        """The writing of a batch: the one under way, or the next."""
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write_batch())
            self._writing.add_done_callback(self._go_on)
        return self._writing

    def _go_on(self, writing: "asyncio.Task[bool]") -> None:
        is_written = not writing.cancelled() and not writing.exception() and writing.result()
        if is_written and self._is_enough():
            self._begin(writing.get_loop())

    async def _write_batch(self) -> bool:
        """Whether it could be written."""
        try:
            await self._store(self._next_batch())
        except RETRYABLE_ERRORS as error:
            log.loop_failed("scribe", error)
            return False
        finally:
            self._tell_lost()
        return True

    def _next_batch(self) -> list[LogLine]:
        batch: list[LogLine] = []
        length = 0
        with self._lock:
            for line in islice(self._waiting, LARGEST_BATCH):
                length += len(line.message)
                if batch and length > LONGEST_BATCH:
                    break
                batch.append(line)
        return batch

    async def _store(self, batch: Sequence[LogLine]) -> None:
        """All of it, but for lines that the database does not take."""
        try:
            await run_logs.append(self._database, batch)
        except UNSTORABLE as error:
            if len(batch) > 1:
                half = len(batch) // 2
                await self._store(batch[:half])
                await self._store(batch[half:])
                return
            with self._lock:
                self._lost[str(error).partition("\n")[0]] += 1
        self._let_go(len(batch))

    def _let_go(self, count: int) -> None:
        with self._lock:
            for _ in range(count):
                self._length -= len(self._waiting.popleft().message)
            self._gone += count

    def _tell_lost(self) -> None:
        with self._lock:
            lost, self._lost = self._lost, Counter()
        for reason, count in lost.items():
            log.get_logger().warning(log.LINES_LOST, lines=count, reason=reason)
