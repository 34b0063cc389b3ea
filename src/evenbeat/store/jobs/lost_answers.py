"""What became of an insert whose answer was lost: the jobs are looked up, never inserted again."""

import asyncio
import contextvars
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.database.pool import Database, Session, connect
from evenbeat.store.database.statements import load_statements

SQL = load_statements("jobs/lost_answers")
# As long as a restart of the server may take, and no longer than a caller should wait.
PATIENCE = 5.0
PAUSE = 0.1


class UnknownIfStored(StoreUnavailable):
    """The database cannot be asked now whether a job was stored."""

    def __init__(self, lost: StoreUnavailable, uid: UUID) -> None:
        super().__init__(
            f"{lost}; whether it was stored is not known: look for job {uid} before adding it again"
        )
        self.lost = lost


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """The backend that was asked, and the error that came instead of its answer."""

    pid: int
    error: StoreUnavailable


async def find_stored_jobs(
    database: Database, uids: Sequence[UUID], lost: LostAnswer
) -> frozenset[UUID]:
    """Which of these jobs the transaction stored before its answer was lost: at least one.

    If it stored none, this raises StoreUnavailable. UnknownIfStored says that this is not certain.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        is_backend_gone, stored = await find_stored_once(database, uids, lost.pid)
        if stored:
            return stored
        if is_backend_gone:
            raise StoreUnavailable(
                f"{lost.error}; nothing was stored: add it again"
            ) from lost.error
        if time.monotonic() > deadline:
            raise UnknownIfStored(lost.error, uids[0]) from lost.error
        await asyncio.sleep(PAUSE)


async def find_stored_once(
    database: Database, uids: Sequence[UUID], pid: int
) -> tuple[bool, frozenset[UUID]]:
    """Whether the backend has ended, and which jobs are stored.

    While the database cannot be reached, neither is known: False, and no job.
    """
    try:
        connection = await connect(database.url)
    except StoreUnavailable:
        return False, frozenset()
    try:
        session = Session(connection, database.clock)
        is_backend_gone = await session.fetch_value(SQL["is_backend_gone"], pid=pid)
        rows = await session.fetch(SQL["find_stored_uids"], uids=list(uids))
        return is_backend_gone, frozenset(row["uid"] for row in rows)
    except StoreUnavailable:
        return False, frozenset()
    finally:
        connection.terminate()


StoredJobSearch = asyncio.Task[frozenset[UUID]]


class StoredJobSearches:
    """Looks up jobs of many callers at once. If one caller is cancelled, the search goes on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._searches: set[StoredJobSearch] = set()

    def search_for(self, uids: Sequence[UUID], lost: LostAnswer) -> StoredJobSearch:
        search = asyncio.get_running_loop().create_task(
            find_stored_jobs(self._database, uids, lost), context=contextvars.Context()
        )
        self._searches.add(search)
        search.add_done_callback(self._forget)
        return search

    async def close(self) -> None:
        """Wait for the searches under way."""
        while self._searches:
            await asyncio.wait(self._searches)

    def _forget(self, search: StoredJobSearch) -> None:
        self._searches.discard(search)
        if not search.cancelled():
            # Retrieve the exception, or asyncio warns that it was never read.
            search.exception()


async def is_job_found(search: StoredJobSearch, uid: UUID) -> bool:
    """Whether the search found this job; raises StoreUnavailable as `find_stored_jobs` does."""
    await asyncio.wait([search])
    try:
        return uid in search.result()
    except UnknownIfStored as error:
        # Each caller is told the id of its own job.
        raise UnknownIfStored(error.lost, uid) from error
