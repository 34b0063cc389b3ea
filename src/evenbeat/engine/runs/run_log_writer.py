"""The run log writer: stores the log lines of all runs of a node, in batches."""

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

# Lines may be long: a thousand long ones take more time than a statement has.
LARGEST_BATCH, LONGEST_BATCH = 1000, 1_000_000
# So many lines and characters are kept in memory while the database is away.
MOST_WAITING, LONGEST_WAITING = 20_000, 20_000_000
FULL = "too many are waiting to be written"


class RunLogWriter:
    """Lines are stored in the order in which they came, and wait in memory until they are.

    While too many wait, new lines are dropped and counted.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # Held for moments only: lines come from many threads.
        self._lock = threading.Lock()
        self._waiting: deque[LogLine] = deque()
        self._length = 0
        # How many lines have left the queue since the start.
        self._left_count = 0
        self._lost: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        # One batch at a time: two at once could be stored in either order.
        self._writing: asyncio.Task[bool] | None = None

    def add_line(self, line: LogLine) -> None:
        """Queue a line; may be called from any thread."""
        with self._lock:
            if len(self._waiting) >= MOST_WAITING or self._length >= LONGEST_WAITING:
                self._lost[FULL] += 1
                return
            was_full = self._is_batch_full()
            self._waiting.append(line)
            self._length += len(line.message)
            is_due = self._is_batch_full() and not was_full
        # Only once per batch: while the database is away, every further line would try again.
        if is_due and self._loop is not None:
            # The loop may be closed by now; then the line cannot be stored.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._begin, self._loop)

    async def flush(self) -> None:
        """Return when the lines queued so far are stored, or cannot be. No run fails for that."""
        self._loop = asyncio.get_running_loop()
        until = self._left_count + len(self._waiting)
        while self._left_count < until:
            # Shielded: many runs wait for the same batch, and one of them may be cancelled. A
            # cancelled batch would be stored twice.
            is_written = await asyncio.shield(self._begin(self._loop))
            # No second try: every waiting run would try again, one after the other.
            if not is_written:
                return

    def _is_batch_full(self) -> bool:
        """Whether a full batch waits: it is written at once, not at the next turn of the loop."""
        return len(self._waiting) >= LARGEST_BATCH or self._length >= LONGEST_BATCH

    def _begin(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Task[bool]":
        """The task that writes a batch: the one under way, or a new one."""
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write_batch())
            self._writing.add_done_callback(self._write_next)
        return self._writing

    def _write_next(self, writing: "asyncio.Task[bool]") -> None:
        is_written = not writing.cancelled() and not writing.exception() and writing.result()
        if is_written and self._is_batch_full():
            self._begin(writing.get_loop())

    async def _write_batch(self) -> bool:
        """Write one batch; returns whether that worked."""
        try:
            await self._store(self._next_batch())
        except RETRYABLE_ERRORS as error:
            log.loop_failed("run_log_writer", error)
            return False
        finally:
            self._log_lost()
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
        """Store all lines of the batch but those that the database refuses."""
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
        self._remove_first(len(batch))

    def _remove_first(self, count: int) -> None:
        with self._lock:
            for _ in range(count):
                self._length -= len(self._waiting.popleft().message)
            self._left_count += count

    def _log_lost(self) -> None:
        with self._lock:
            lost, self._lost = self._lost, Counter()
        for reason, count in lost.items():
            log.get_logger().warning(log.LINES_LOST, lines=count, reason=reason)
