"""Answers that were lost: whether jobs were stored is found out by looking, never by a retry."""

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store import newborns
from evenbeat.store.database import Database, Session, connect

# As long as a restart of the server may take, and as somebody may be kept waiting.
PATIENCE = 5.0
PAUSE = 0.1


class NotKnown(StoreUnavailable):
    """Whether a job was stored cannot be found out now."""

    def __init__(self, lost: StoreUnavailable, uid: UUID) -> None:
        super().__init__(
            f"{lost}; whether it was stored is not known: look for job {uid} before adding it again"
        )
        self.lost = lost


async def find_stored(
    database: Database, uids: Sequence[UUID], *, pid: int, lost: StoreUnavailable
) -> frozenset[UUID]:
    """Which of these jobs the backend `pid` has stored before its answer was lost: all, or it
    raises StoreUnavailable, which says whether that is certain."""
    deadline = time.monotonic() + PATIENCE
    while True:
        is_gone, found = await look(database, uids, pid)
        if found:
            return found
        if is_gone:
            raise StoreUnavailable(f"{lost}; nothing was stored: add it again") from lost
        if time.monotonic() > deadline:
            raise NotKnown(lost, uids[0]) from lost
        await asyncio.sleep(PAUSE)


async def look(database: Database, uids: Sequence[UUID], pid: int) -> tuple[bool, frozenset[UUID]]:
    """Whether the backend is gone, and what is there; neither while the database is away."""
    try:
        connection = await connect(database.url)
    except StoreUnavailable:
        return False, frozenset()
    try:
        session = Session(connection, database.clock)
        is_gone = await newborns.is_backend_gone(session, pid)
        return is_gone, await newborns.stored(session, uids)
    except StoreUnavailable:
        return False, frozenset()
    finally:
        connection.terminate()
