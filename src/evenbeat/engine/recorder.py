"""The recorder: writes how runs ended, in batches, and never gives one up."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import asyncpg

from evenbeat.core.durations import format_duration
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.model import ErrorClass, RunState, State
from evenbeat.core.outcome import Failed, Outcome
from evenbeat.core.settle import Verdict, settle
from evenbeat.engine import tally
from evenbeat.engine.runner import in_words
from evenbeat.observe import failpoint, log
from evenbeat.observe.metrics import Metrics
from evenbeat.store import groups, leases
from evenbeat.store.clock import Watch
from evenbeat.store.database import Database
from evenbeat.store.leases import Broken, Held, Settled, Written

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

    def __init__(
        self, database: Database, on_recorded: Callable[[], None], metrics: Metrics
    ) -> None:
        self.watch = Watch(database)
        # Runs from their claim until their end is written.
        self.in_hand: dict[int, Held] = {}
        self._database = database
        self._on_recorded = on_recorded
        self._metrics = metrics
        self._ended: list[Ended] = []
        self._has_ended = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def add(self, *ended: Ended) -> None:
        self._ended.extend(ended)
        self._is_idle.clear()
        self._has_ended.set()

    async def run(self) -> None:
        """Write until cancelled; whatever becomes of a batch, the next one is written."""
        while True:
            await self._has_ended.wait()
            batch, self._ended = self._ended[:LARGEST_BATCH], self._ended[LARGEST_BATCH:]
            try:
                await self._persist(batch)
            except Exception as error:
                tell_failure(error)
            for ended in batch:
                self.in_hand.pop(ended.claimed.run.id, None)
            if not self._ended:
                self._has_ended.clear()
                self._is_idle.set()
            self._on_recorded()

    async def drain(self) -> None:
        """Return when everything that was added has been written."""
        await self._is_idle.wait()

    async def _persist(self, batch: list[Ended]) -> None:
        while True:
            try:
                return await self.write(batch)
            except TROUBLE as error:
                # The tokens still fence: trying again cannot write a run twice.
                tell_failure(error)
                await asyncio.sleep(RETRY_AFTER)

    async def write(self, batch: Sequence[Ended]) -> None:
        """Write the ends of these runs. One that cannot be stored does not keep back the others."""
        try:
            await self._write_together(batch)
        except UNSTORABLE:
            for ended in batch:
                await self._write_alone(ended)

    async def _write_alone(self, ended: Ended) -> None:
        """As it was reported, or else as a failed run, or else by stopping the job."""
        try:
            return await self._write_together([ended])
        except UNSTORABLE as error:
            why = in_words(error, "the end of the run cannot be stored")
        try:
            await self._write_together([replace(ended, outcome=Failed(why))])
        except UNSTORABLE:
            held = ended.claimed
            broken = Broken(held.id, held.uid, held.run, held.plan_version, why)
            await self._write_together([replace(ended, claimed=broken)])

    async def _write_together(self, batch: Sequence[Ended]) -> None:
        """Settle a batch by the database's clock, and tell what came of each run."""
        now = await self.watch.now()
        settled = [Settled(ended.claimed, judge(ended, now), ended.duration) for ended in batch]
        failpoint.reach("before_complete")
        written = await leases.complete(self._database, settled)
        failpoint.reach("completed")
        tell_all(settled, written, now)
        tally.count(self._metrics, settled, written.run_ids)
        if written.group_ids:
            failpoint.reach("before_unpark")
            await self._unpark(written)

    async def _unpark(self, written: Written) -> None:
        try:
            await groups.unpark(self._database, written.group_ids)
        except TROUBLE as error:
            # The runs are written; who waits for their places is found by the usher.
            tell_failure(error)


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
    log.loop_failed("recorder", error, with_trace=not isinstance(error, TROUBLE))


def tell_all(batch: Sequence[Settled], written: Written, now: datetime) -> None:
    shows_success = log.shows_info()
    for settled in batch:
        was_ours = settled.claimed.run.id in written.run_ids
        # A line a run is dear at 20,000 runs a second: not even made where nobody reads it.
        if shows_success or not was_ours or settled.verdict.run_state is not RunState.COMPLETED:
            tell(settled, now, was_ours=was_ours)


def tell(settled: Settled, now: datetime, *, was_ours: bool) -> None:
    held, verdict = settled.claimed, settled.verdict
    logger = log.get_logger().bind(
        job_id=str(held.uid),
        kind=None if isinstance(held, Broken) else held.definition.kind,
        execution_number=held.run.number,
        duration=log.seconds(settled.duration),
    )
    if not was_ours:
        logger.warning(log.RUN_FENCED)
    elif verdict.run_state is RunState.COMPLETED:
        logger.info(log.JOB_COMPLETED, items_crawled=verdict.items_crawled)
    elif verdict.run_state is RunState.FAILED:
        if verdict.error_class is ErrorClass.LOST:
            age = timedelta(seconds=(now - held.run.started_at) // timedelta(seconds=1))
            logger.warning(log.LEASE_CLEARED, lock_age=format_duration(age))
        logger.error(
            log.JOB_FAILED,
            error=verdict.error,
            error_class=verdict.error_class,
            attempt=held.run.attempt,
            retry_in=log.seconds(verdict.retry_at and verdict.retry_at - now),
        )
    else:
        logger.info(log.RUN_CLOSED, state=verdict.run_state, reason=verdict.reason)
