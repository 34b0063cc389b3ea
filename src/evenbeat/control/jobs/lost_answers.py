"""Answers that were lost: whether jobs were stored is found out by looking, never by a retry."""

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.database.pool import Database, Session, connect, terminate_connection
from evenbeat.store.jobs import job_inserts

# As long as a restart of the server may take, and as somebody may be kept waiting.
PATIENCE = 5.0
PAUSE = 0.1


class UnknownIfStored(StoreUnavailable):
    """Whether a job was stored cannot be found out now."""

    def __init__(self, lost: StoreUnavailable, uid: UUID) -> None:
        super().__init__(
            f"{lost}; whether it was stored is not known: look for job {uid} before adding it again"
        )
        self.lost = lost


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """The backend that was asked, and what was heard instead of its answer."""

    pid: int
    error: StoreUnavailable


async def try_write(
    database: Database, write: Callable[[Any], Awaitable[None]]
) -> LostAnswer | None:
    """Write on a connection of ours; None: it was answered."""
    pid: int | None = None
    try:
        async with database.connection() as ours:
            pid = ours.get_server_pid()
            try:
                await write(ours)
            except StoreUnavailable:
                # Cut off for good, so that its backend ends as soon as it has done what it does.
                terminate_connection(ours)
                raise
    except StoreUnavailable as error:
        if pid is None:
            raise
        return LostAnswer(pid, error)
    return None


async def find_stored_jobs(
    database: Database, uids: Sequence[UUID], unanswered: LostAnswer
) -> frozenset[UUID]:
    """Which of these jobs one transaction has stored before its answer was lost: some, or it
    raises StoreUnavailable, which says whether that is certain."""
    deadline = time.monotonic() + PATIENCE
    lost = unanswered.error
    while True:
        is_gone, found = await find_stored_once(database, uids, unanswered.pid)
        if found:
            return found
        if is_gone:
            raise StoreUnavailable(f"{lost}; nothing was stored: add it again") from lost
        if time.monotonic() > deadline:
            raise UnknownIfStored(lost, uids[0]) from lost
        await asyncio.sleep(PAUSE)


StoredJobSearch = asyncio.Task[frozenset[UUID]]


class StoredJobSearches:
    """Looks for jobs of many callers at once, whoever of these goes away meanwhile."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looking: set[StoredJobSearch] = set()

    def search_for(self, uids: Sequence[UUID], unanswered: LostAnswer) -> StoredJobSearch:
        looking = asyncio.get_running_loop().create_task(
            find_stored_jobs(self._database, uids, unanswered), context=contextvars.Context()
        )
        self._looking.add(looking)
        looking.add_done_callback(self._forget)
        return looking

    async def done(self) -> None:
        while self._looking:
            await asyncio.wait(self._looking)

    def _forget(self, looking: StoredJobSearch) -> None:
        self._looking.discard(looking)
        if not looking.cancelled():
            # Heard of, even if all who would ask for it have gone.
            looking.exception()


async def is_job_found(looking: StoredJobSearch, uid: UUID) -> bool:
    """Whether this job was found; raises StoreUnavailable as `find_stored` does."""
    await asyncio.wait([looking])
    try:
        return uid in looking.result()
    except UnknownIfStored as error:
        # Each is to look for its own.
        raise UnknownIfStored(error.lost, uid) from error


async def find_stored_once(
    database: Database, uids: Sequence[UUID], pid: int
) -> tuple[bool, frozenset[UUID]]:
    """Whether the backend is gone, and what is there; neither while the database is away."""
    try:
        connection = await connect(database.url)
    except StoreUnavailable:
        return False, frozenset()
    try:
        session = Session(connection, database.clock)
        is_gone = await job_inserts.is_backend_gone(session, pid)
        return is_gone, await job_inserts.find_stored_uids(session, uids)
    except StoreUnavailable:
        return False, frozenset()
    finally:
        connection.terminate()
