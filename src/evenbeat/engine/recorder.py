"""The recorder: writes how runs ended, in batches, and never gives one up."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import asyncpg

from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.model import ErrorClass, RunState, State
from evenbeat.core.outcome import Failed, Outcome
from evenbeat.core.settle import Verdict, settle
from evenbeat.engine.runner import storable
from evenbeat.observe import log
from evenbeat.store import clock, leases
from evenbeat.store.database import Database
from evenbeat.store.leases import Broken, Held, Settled

LARGEST_BATCH = 500
RETRY_AFTER = 0.5

# The fault of what is written. All else that PostgreSQL says (a deadlock, a limit of time, a
# server that has become read-only) is trouble of its own, and passes.
UNSTORABLE = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)
TROUBLE = (StoreUnavailable, asyncpg.PostgresError)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended and is not written yet."""

    claimed: Held
    outcome: Outcome
    duration: timedelta | None


class Recorder:
    """What ends while a batch is being written makes up the next one."""

    def __init__(
        self, database: Database, on_recorded: Callable[[Sequence[Ended]], None]
    ) -> None:
        self._database = database
        self._on_recorded = on_recorded
        self._waiting: asyncio.Queue[Ended] = asyncio.Queue()

    def add(self, ended: Ended) -> None:
        self._waiting.put_nowait(ended)

    async def run(self) -> None:
        """Write until cancelled. Trouble passes; no batch can stop the ones after it."""
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < LARGEST_BATCH and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            try:
                await self._persist(batch)
            except Exception as error:
                tell_trouble(error)
            self._on_recorded(batch)
            for _ in batch:
                self._waiting.task_done()

    async def drain(self) -> None:
        """Return when everything that was added has been written."""
        await self._waiting.join()

    async def _persist(self, batch: list[Ended]) -> None:
        while True:
            try:
                return await write(self._database, batch)
            except UNSTORABLE:
                raise
            except TROUBLE as error:
                # The tokens still fence: trying again cannot write a run twice.
                tell_trouble(error)
                await asyncio.sleep(RETRY_AFTER)


async def write(database: Database, batch: list[Ended]) -> None:
    """Settle a batch; an end that cannot be stored fails its own run, not the others."""
    try:
        return await write_together(database, batch)
    except TROUBLE as error:
        if not isinstance(error, UNSTORABLE):
            raise
    except ValueError:
        # The driver could not even encode it.
        pass
    for ended in batch:
        await write_alone(database, ended)
    return None


async def write_alone(database: Database, ended: Ended) -> None:
    try:
        await write_together(database, [ended])
    except (*UNSTORABLE, ValueError) as error:
        why = storable(f"what the run reported cannot be stored: {error}")
        await write_together(database, [replace(ended, outcome=Failed(why))])
