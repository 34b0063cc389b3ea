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
from evenbeat.engine.runner import in_words
from evenbeat.observe import log
from evenbeat.store import clock, leases
from evenbeat.store.database import Database
from evenbeat.store.leases import Broken, Held, Settled

LARGEST_BATCH = 500
RETRY_AFTER = 0.5

# The fault of what is written.
UNSTORABLE = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)
# All else that PostgreSQL may say passes: a deadlock, a time limit, a server that is read-only.
TROUBLE = (StoreUnavailable, asyncpg.PostgresError)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended and is not written yet."""

    claimed: Held
    outcome: Outcome
    duration: timedelta | None


class Recorder:
    """What ends while a batch is being written makes up the next one."""

    def __init__(self, database: Database, on_recorded: Callable[[Sequence[Ended]], None]) -> None:
        self._database = database
        self._on_recorded = on_recorded
        self._waiting: asyncio.Queue[Ended] = asyncio.Queue()

    def add(self, ended: Ended) -> None:
        self._waiting.put_nowait(ended)

    async def run(self) -> None:
        """Write until cancelled; whatever becomes of a batch, the next one is written."""
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < LARGEST_BATCH and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            try:
                await self._persist(batch)
            except Exception as error:
                tell_failure(error)
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
            except TROUBLE as error:
                # The tokens still fence: trying again cannot write a run twice.
                tell_failure(error)
                await asyncio.sleep(RETRY_AFTER)


async def write(database: Database, batch: Sequence[Ended]) -> None:
    """Write the ends of these runs. One that cannot be stored does not keep back the others."""
    try:
        await write_together(database, batch)
    except UNSTORABLE:
        for ended in batch:
            await write_alone(database, ended)


async def write_alone(database: Database, ended: Ended) -> None:
    """As it was reported, or else as a failed run, or else by stopping the job."""
    try:
        return await write_together(database, [ended])
    except UNSTORABLE as error:
        why = in_words(error, "the end of the run cannot be stored")
    try:
        await write_together(database, [replace(ended, outcome=Failed(why))])
    except UNSTORABLE:
        held = ended.claimed
        broken = Broken(held.id, held.uid, held.run, held.plan_version, why)
        await write_together(database, [replace(ended, claimed=broken)])


async def write_together(database: Database, batch: Sequence[Ended]) -> None:
    """Settle a batch by the database's clock, and tell what came of each run."""
    now = await clock.now(database)
    settled = [Settled(ended.claimed, judge(ended, now), ended.duration) for ended in batch]
    written = await leases.complete(database, settled)
    for each in settled:
        tell(each, was_ours=each.claimed.run.id in written)


def judge(ended: Ended, now: datetime) -> Verdict:
    if isinstance(ended.claimed, Broken):
        return stopped(ended.claimed.error)
    try:
        return settle(ended.claimed, ended.outcome, now)
    except Exception as error:
        return stopped(in_words(error, "what follows from the run cannot be said"))


def stopped(error: str) -> Verdict:
    """A job that its own rules cannot settle rests as failed, with no beat, until it is mended."""
    return Verdict(
        RunState.FAILED,
        State.FAILED,
        moves_cursor=True,
        failure_streak=1,
        is_dead=True,
        error_class=ErrorClass.HANDLER_ERROR,
        error=error,
    )


def tell_failure(error: Exception) -> None:
    is_ours = not isinstance(error, TROUBLE)
    log.get_logger().warning(log.LOOP_FAILED, loop="recorder", error=str(error), exc_info=is_ours)


def tell(settled: Settled, *, was_ours: bool) -> None:
    held, verdict = settled.claimed, settled.verdict
    logger = log.get_logger().bind(
        job_id=str(held.uid),
        kind=None if isinstance(held, Broken) else held.definition.kind,
        execution_number=held.run.number,
        duration=settled.duration and settled.duration.total_seconds(),
    )
    if not was_ours:
        logger.warning(log.RUN_FENCED)
    elif verdict.run_state is RunState.COMPLETED:
        logger.info(log.JOB_COMPLETED, items_crawled=verdict.items_crawled)
    elif verdict.run_state is RunState.FAILED:
        logger.warning(
            log.JOB_FAILED,
            error=verdict.error,
            error_class=verdict.error_class,
            attempt=held.run.attempt,
            retry_at=verdict.retry_at and verdict.retry_at.isoformat(),
        )
    else:
        logger.info(log.RUN_CLOSED, state=verdict.run_state, reason=verdict.reason)
