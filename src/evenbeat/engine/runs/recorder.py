"""The recorder: writes how runs ended, in batches, and never gives one up."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from evenbeat.core.balance.model import slot_of
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.frozen import frozen_value
from evenbeat.core.jobs.model import ErrorClass, RunState, State
from evenbeat.core.runs.outcome import Failed, Outcome
from evenbeat.core.runs.outcome_checks import describe_error
from evenbeat.core.runs.settle import Recorded, Verdict, settle, stop_job
from evenbeat.core.time.durations import format_duration
from evenbeat.engine.runs import outcome_metrics
from evenbeat.observe import failpoint, log
from evenbeat.observe.metrics import Metrics
from evenbeat.store.database.clock import DatabaseClock
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import groups
from evenbeat.store.runs import completions
from evenbeat.store.runs.completions import SettledRun, WrittenRuns
from evenbeat.store.runs.leases import HeldRun, UnrunnableClaim

LARGEST_BATCH = 500
RETRY_AFTER = 0.5
LOOK_AGAIN = 1.0

# The fault of what is written.
UNSTORABLE = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)
# All else that PostgreSQL may say passes: a deadlock, a time limit, a server that is read-only.
RETRYABLE_ERRORS = (StoreUnavailable, asyncpg.PostgresError)
# Somebody's open transaction may hold the row of a job.
LOCK_ERRORS = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)


@frozen_value
class EndedRun:
    """A run that has ended."""

    claimed: HeldRun
    outcome: Outcome
    duration: timedelta | None
    # Where the handler has written the end itself.
    recorded: Recorded | None = None


class Recorder:
    """What ends while a batch is being written makes up the next one."""

    def __init__(
        self,
        database: Database,
        on_recorded: Callable[[], None],
        metrics: Metrics,
        on_over: Callable[[Collection[int]], None] = lambda job_ids: None,
    ) -> None:
        """`on_over` is told of recurring jobs that beat no more by themselves."""
        self.watch = DatabaseClock(database)
        # Runs from their claim until their end is written.
        self.in_hand: dict[int, HeldRun] = {}
        self._database = database
        self._on_recorded = on_recorded
        self._on_over = on_over
        self._metrics = metrics
        self._ended: list[EndedRun] = []
        # Those whose job is held by somebody else's open transaction.
        self._held_up: list[EndedRun] = []
        self._has_ended = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def note(self, claimed: HeldRun, recorded: Recorded) -> None:
        """Tell of an end that its handler has written."""
        settled = SettledRun(claimed, recorded.verdict, recorded.duration)
        self._tell([settled], {claimed.run.id}, recorded.at)
        self.in_hand.pop(claimed.run.id, None)
        self._on_recorded()

    def add(self, ended: Sequence[EndedRun]) -> None:
        self._ended.extend(ended)
        self._is_idle.clear()
        self._has_ended.set()

    async def run(self) -> None:
        """Write until cancelled; whatever becomes of a batch, the next one is written."""
        while True:
            batch, left = await self._next_batch(), list[EndedRun]()
            try:
                left = await self._persist(batch)
            except Exception as error:
                log_failure(error)
            self._held_up += left
            kept = {ended.claimed.run.id for ended in left}
            for ended in batch:
                if ended.claimed.run.id not in kept:
                    self.in_hand.pop(ended.claimed.run.id, None)
            if not self._ended:
                self._has_ended.clear()
            if not self._ended and not self._held_up:
                self._is_idle.set()
            self._on_recorded()

    async def _next_batch(self) -> list[EndedRun]:
        while True:
            if self._held_up:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._has_ended.wait(), LOOK_AGAIN)
                await self._look_after_held_up()
            else:
                await self._has_ended.wait()
            if self._ended:
                batch, self._ended = self._ended[:LARGEST_BATCH], self._ended[LARGEST_BATCH:]
                return batch

    async def _look_after_held_up(self) -> None:
        """Let those come again whose job is held by nobody any more."""
        try:
            free, self._held_up = await self._sorted_by_locks(self._held_up)
        except RETRYABLE_ERRORS as error:
            log_failure(error)
        else:
            self._ended += free

    async def _sorted_by_locks(
        self, batch: Sequence[EndedRun]
    ) -> tuple[list[EndedRun], list[EndedRun]]:
        """Those that nobody else holds, and those that somebody does."""
        unlocked = await completions.find_unlocked_jobs(
            self._database, [each.claimed.id for each in batch]
        )
        free = [each for each in batch if each.claimed.id in unlocked]
        return free, [each for each in batch if each.claimed.id not in unlocked]

    async def drain(self) -> None:
        """Return when everything that was added has been written."""
        await self._is_idle.wait()

    async def _persist(self, batch: list[EndedRun]) -> list[EndedRun]:
        """Says which ones are left, as `write` does."""
        is_in_doubt = False
        while True:
            try:
                return await self.write(batch, is_in_doubt=is_in_doubt)
            except RETRYABLE_ERRORS as error:
                # The tokens still fence: trying again cannot write a run twice. But it may have
                # been written just now, and only the answer was lost.
                is_in_doubt = True
                log_failure(error)
                await asyncio.sleep(RETRY_AFTER)

    async def write(
        self, batch: Sequence[EndedRun], *, is_in_doubt: bool = False
    ) -> list[EndedRun]:
        """Write the ends of these runs. One that cannot be stored does not keep back the others.

        Nor does one whose job is held by a stranger's transaction: such ones are left, and come
        back. In doubt are those that may have been written by a try whose answer was lost.
        """
        try:
            await self._write_together(batch, is_in_doubt)
        except UNSTORABLE:
            for ended in batch:
                await self._write_alone(ended, is_in_doubt)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, LOCK_ERRORS):
                raise
            free, left = await self._sorted_by_locks(batch)
            if not left:
                raise
            log_failure(error)
            if free:
                await self._write_together(free, is_in_doubt)
            return left
        return []

    async def _write_alone(self, ended: EndedRun, is_in_doubt: bool) -> None:
        """As it was reported, or else as a failed run, or else by stopping the job."""
        try:
            return await self._write_together([ended], is_in_doubt)
        except UNSTORABLE as error:
            why = describe_error(error, "the end of the run cannot be stored")
        try:
            await self._write_together([replace(ended, outcome=Failed(why))], is_in_doubt)
        except UNSTORABLE:
            held = ended.claimed
            broken = UnrunnableClaim(held.id, held.uid, held.run, held.plan_version, why)
            await self._write_together([replace(ended, claimed=broken)], is_in_doubt)

    async def _write_together(self, batch: Sequence[EndedRun], is_in_doubt: bool) -> None:
        """Settle a batch by the database's clock, and tell what came of each run."""
        now = await self.watch.now()
        settled = [
            SettledRun(ended.claimed, decide_verdict(ended, now), ended.duration) for ended in batch
        ]
        failpoint.reach("before_complete")
        written = await completions.complete_runs(self._database, settled)
        failpoint.reach("completed")
        if is_in_doubt:
            written = await self._with_unheard(settled, written)
        self._tell(settled, written.run_ids, now)
        if written.group_ids:
            failpoint.reach("before_unpark")
            await self._unpark(written)

    def _tell(self, batch: Sequence[SettledRun], run_ids: Collection[int], now: datetime) -> None:
        """All who want to know of these ends; of those that were fenced only the log tells."""
        log_ends(batch, run_ids, now)
        outcome_metrics.count_outcomes(self._metrics, batch, run_ids)
        over = [each.claimed for each in batch if has_stopped_recurring(each)]
        if over:
            self._on_over([held.id for held in over if held.run.id in run_ids])

    async def _with_unheard(self, batch: Sequence[SettledRun], written: WrittenRuns) -> WrittenRuns:
        """Along with what an earlier try had written already, which is found by looking."""
        missing = [each for each in batch if each.claimed.run.id not in written.run_ids]
        if not missing:
            return written
        unheard = await completions.find_written_runs(self._database, missing)
        return replace(written, run_ids=written.run_ids | unheard)

    async def _unpark(self, written: WrittenRuns) -> None:
        try:
            await groups.unpark_jobs(self._database, written.group_ids)
        except RETRYABLE_ERRORS as error:
            # The runs are written; who waits for their places is found by the usher.
            log_failure(error)


def decide_verdict(ended: EndedRun, now: datetime) -> Verdict:
    if isinstance(ended.claimed, UnrunnableClaim):
        return stop_job(ended.claimed.error)
    try:
        return settle(ended.claimed, ended.outcome, now)
    except Exception as error:
        return stop_job(describe_error(error, "what follows from the run cannot be said"))


def has_stopped_recurring(settled: SettledRun) -> bool:
    """Whether a job that recurs beats no more by itself: it has ended, was stopped or is paused."""
    held, verdict = settled.claimed, settled.verdict
    if verdict.state is State.PAUSED:
        return True
    if not verdict.moves_cursor or verdict.next_beat_at is not None:
        return False
    return isinstance(held, UnrunnableClaim) or held.definition.timetable.schedule.is_recurring


def log_failure(error: Exception) -> None:
    log.loop_failed("recorder", error, with_trace=not isinstance(error, RETRYABLE_ERRORS))


def log_ends(batch: Sequence[SettledRun], run_ids: Collection[int], now: datetime) -> None:
    shows_success = log.shows_info()
    for settled in batch:
        was_ours = settled.claimed.run.id in run_ids
        # A line a run is dear at 20,000 runs a second: not even made where nobody reads it.
        if shows_success or not was_ours or settled.verdict.run_state is not RunState.COMPLETED:
            log_end(settled, now, was_ours=was_ours)


def log_next_beat(
    uid: UUID | None, beat_at: datetime | None, next_beat_at: datetime | None
) -> None:
    """Where in the day the next beat of a job comes."""
    if beat_at is not None and next_beat_at is not None:
        log.get_logger().info(
            log.JOB_RESCHEDULED,
            job_id=str(uid),
            old_slot=f"{slot_of(beat_at):%H:%M}",
            new_slot=f"{slot_of(next_beat_at):%H:%M}",
        )


def log_end(settled: SettledRun, now: datetime, *, was_ours: bool) -> None:
    held, verdict = settled.claimed, settled.verdict
    logger = log.get_logger().bind(
        job_id=str(held.uid),
        kind=None if isinstance(held, UnrunnableClaim) else held.definition.kind,
        execution_number=held.run.number,
        duration=log.format_seconds(settled.duration),
    )
    if not was_ours:
        logger.warning(log.RUN_FENCED)
    elif verdict.run_state is RunState.COMPLETED:
        logger.info(log.JOB_COMPLETED, items_crawled=verdict.items_crawled)
        log_next_beat(held.uid, held.run.beat_at, verdict.next_beat_at)
    elif verdict.run_state is RunState.FAILED:
        if verdict.error_class is ErrorClass.LOST:
            age = timedelta(seconds=(now - held.run.started_at) // timedelta(seconds=1))
            logger.warning(log.LEASE_CLEARED, lock_age=format_duration(age))
        logger.error(
            log.JOB_FAILED,
            error=verdict.error,
            error_class=verdict.error_class,
            attempt=held.run.attempt,
            retry_in=log.format_seconds(verdict.retry_at and verdict.retry_at - now),
        )
    else:
        logger.info(log.RUN_CLOSED, state=verdict.run_state, reason=verdict.reason)
