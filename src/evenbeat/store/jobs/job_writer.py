"""Stores new jobs: gathers those of many callers into one commit, and survives a lost answer.

A statement and its flush to disk cost nearly the same for one job as for ten. A job that arrives
while two statements are being written waits for the end of one. Then it is written together with
all the others that wait. A job that arrives alone is written at once.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.database.pool import (
    COMMAND_TIMEOUT,
    Database,
    Session,
    savepoint_on,
    terminate_connection,
    transaction_on,
)
from evenbeat.store.jobs import job_inserts, lost_answers
from evenbeat.store.jobs.job_inserts import Inserted, InsertResult, NewJob
from evenbeat.store.jobs.lost_answers import LostAnswer, StoredJobSearch, StoredJobSearches

Item = TypeVar("Item")
# Bytes of payload. A larger job would delay the jobs that are written with it.
LARGEST_SHARED_PAYLOAD = 10_000
# Jobs in one statement: it then has at most a megabyte.
MOST_IN_BATCH = 100
# While one batch is flushed to disk, another is on its way: neither the disk nor we wait.
MOST_BATCHES_AT_ONCE = 2
# By then the batches under way have timed out, unless they still wait for a connection.
LONGEST_WAIT = COMMAND_TIMEOUT + 1.0


@dataclass(slots=True)
class SharedInsert:
    """A job on its way in a statement that it shares with others, and what became of it."""

    new_job: NewJob
    wakes: bool
    inserted: Inserted | None = None
    # Set if the answer was lost.
    search: StoredJobSearch | None = None

    async def is_stored(self) -> bool:
        """False: its lane is not open yet, so that the statement left it out."""
        if self.search is None:
            return self.inserted is not None
        return await lost_answers.is_job_found(self.search, self.new_job.uid)


class JobWriter:
    """Stores new jobs in one database, and knows what was stored if the connection is lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._searches = StoredJobSearches(database)
        self.group_commit = GroupCommit(self._insert_together)

    async def close(self) -> None:
        await self.group_commit.close()
        await self._searches.close()

    async def insert(
        self, new_jobs: Sequence[NewJob], *, wakes: bool, connection: Any = None
    ) -> InsertResult:
        """Store all of these jobs, or raise. With `wakes`, the commit wakes the nodes.

        On a caller's `connection` the jobs become part of the caller's transaction.
        """
        result = InsertResult()
        if connection is not None:
            await self._insert_on(connection, new_jobs, result, wakes=wakes)
            return result
        if len(new_jobs) == 1 and can_share_insert(new_jobs[0]):
            shared = SharedInsert(new_jobs[0], wakes)
            await self.group_commit.add(shared)
            # Nearly every lane is open. A closed one is only noticed by trying.
            if await shared.is_stored():
                return InsertResult(shared.inserted)
        lost = await try_write(
            self._database,
            lambda ours: self._insert_on(ours, new_jobs, result, wakes=wakes, is_ours=True),
        )
        if lost is not None:
            uids = [each.uid for each in new_jobs]
            await lost_answers.find_stored_jobs(self._database, uids, lost)
        return result

    async def _insert_together(self, batch: list[SharedInsert]) -> None:
        """Store the jobs whose lane is open, in one statement."""
        new_jobs = [each.new_job for each in batch]

        async def write(connection: Any) -> None:
            session = Session(connection, self._database.clock)
            wakes = any(each.wakes for each in batch)
            stored = await job_inserts.insert_jobs(session, new_jobs, wakes=wakes, returns_ids=True)
            for each in batch:
                job_id = stored.ids.get(each.new_job.uid)
                if job_id is not None:
                    each.inserted = Inserted(1, job_id, stored.at)

        lost = await try_write(self._database, write)
        if lost is not None:
            # One search for the whole batch; other batches are written meanwhile.
            search = self._searches.search_for([each.uid for each in new_jobs], lost)
            for each in batch:
                each.search = search

    async def _insert_on(
        self,
        connection: Any,
        new_jobs: Sequence[NewJob],
        result: InsertResult,
        *,
        wakes: bool,
        is_ours: bool = False,
    ) -> None:
        first = new_jobs[0]
        # A name that is taken would abort the caller's transaction, were there no savepoint.
        is_simple = first.group is None and (is_ours or first.definition.name is None)
        if is_simple and len(new_jobs) == 1:
            session = Session(connection, self._database.clock)
            inserted = await job_inserts.insert_jobs(session, new_jobs, wakes=wakes)
            if inserted.count:
                result.inserted = inserted
                return
            if first.dedupe_key is not None:
                keys = [first.dedupe_key]
                result.holders = await job_inserts.find_dedupe_holders(session, keys)
                if result.holders:
                    return
        unit = savepoint_on if connection.is_in_transaction() else transaction_on
        async with unit(connection, self._database.clock) as session:
            await job_inserts.insert_all(session, new_jobs, result, wakes=wakes)


def can_share_insert(new_job: NewJob) -> bool:
    """Whether only the server itself could delay this job: no other transaction can block it."""
    return (
        new_job.dedupe_key is None
        and new_job.definition.name is None
        and new_job.group is None
        # `len(text)` is a lower bound of the bytes: huge payloads are not encoded to measure them.
        and len(new_job.payload) <= LARGEST_SHARED_PAYLOAD
        and len(new_job.payload.encode()) <= LARGEST_SHARED_PAYLOAD
    )


async def try_write(
    database: Database, write: Callable[[Any], Awaitable[None]]
) -> LostAnswer | None:
    """Write on a connection of the pool. None means that PostgreSQL answered."""
    pid: int | None = None
    try:
        async with database.connection() as connection:
            pid = connection.get_server_pid()
            try:
                await write(connection)
            except StoreUnavailable:
                # Close the connection for good, so that its backend ends after this statement.
                terminate_connection(connection)
                raise
    except StoreUnavailable as error:
        if pid is None:
            raise
        return LostAnswer(pid, error)
    return None


@dataclass(slots=True)
class WaitingItem(Generic[Item]):
    """An item that waits for its batch, and the future that its caller awaits."""

    item: Item
    done: asyncio.Future[None]
    timeout: asyncio.TimerHandle
    # It was in a batch that could not be written, so that it is tried again alone.
    is_suspect: bool = False


class GroupCommit(Generic[Item]):
    """Writes items of many callers in batches; each caller gets the error of its own item only."""

    def __init__(
        self,
        write: Callable[[list[Item]], Awaitable[None]],
        at_once: int = MOST_BATCHES_AT_ONCE,
    ) -> None:
        """`write` stores all items of a batch or none; `at_once` batches are under way at most."""
        self._write = write
        self._at_once = at_once
        self._waiting: deque[WaitingItem[Item]] = deque()
        self._under_way = 0
        self._writing: set[asyncio.Task[None]] = set()

    async def add(self, item: Item) -> None:
        """Returns when the item is written."""
        if self._under_way >= self._at_once:
            await self._wait(item)
            return
        self._under_way += 1
        try:
            await self._write([item])
        finally:
            self._start_next_batch()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    async def close(self) -> None:
        """Wait for the batches that are being written."""
        while self._writing:
            await asyncio.wait(self._writing)

    async def _wait(self, item: Item) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        timeout = loop.call_later(LONGEST_WAIT, give_up, done)
        self._waiting.append(WaitingItem(item, done, timeout))
        await done

    def _start_next_batch(self) -> None:
        batch = self._take_batch()
        if not batch:
            self._under_way -= 1
            return
        # The task has an empty context and belongs to no caller: if one caller is cancelled, the
        # batch is still written for the others.
        writing = asyncio.get_running_loop().create_task(
            self._write_batch([each.item for each in batch]), context=contextvars.Context()
        )
        self._writing.add(writing)
        writing.add_done_callback(partial(self._finish_batch, batch))

    def _take_batch(self) -> list[WaitingItem[Item]]:
        batch: list[WaitingItem[Item]] = []
        while self._waiting and len(batch) < MOST_IN_BATCH:
            if batch and (self._waiting[0].is_suspect or batch[0].is_suspect):
                break
            waiting = self._waiting.popleft()
            # From here on the item may be stored, and only the statement knows.
            waiting.timeout.cancel()
            if not waiting.done.done():
                batch.append(waiting)
        return batch

    async def _write_batch(self, items: list[Item]) -> None:
        await self._write(items)

    def _finish_batch(self, batch: list[WaitingItem[Item]], writing: asyncio.Task[None]) -> None:
        self._writing.discard(writing)
        error = None if writing.cancelled() else writing.exception()
        if error is not None and len(batch) > 1 and not isinstance(error, StoreUnavailable):
            # One item caused the error. Each is tried alone to find out which.
            for each in reversed(batch):
                each.is_suspect = True
                self._waiting.appendleft(each)
        else:
            for each in batch:
                resolve_future(each.done, writing, error)
        self._start_next_batch()


def give_up(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_exception(
            StoreUnavailable(
                "the database is busy with other jobs; nothing was stored: add it again"
            )
        )


def resolve_future(
    done: asyncio.Future[None], writing: asyncio.Task[None], error: BaseException | None
) -> None:
    if done.done():
        # The caller was cancelled.
        return
    if writing.cancelled():
        done.cancel()
    elif error is not None:
        done.set_exception(error)
    else:
        done.set_result(None)
