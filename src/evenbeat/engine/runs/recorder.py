"""The recorder: writes how runs ended, in batches, and tries until each end is written."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import asyncpg

from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.frozen import frozen_value
from evenbeat.core.jobs.model import HeldRun, State, UnrunnableClaim
from evenbeat.core.runs.outcome import Failed, Outcome, describe_error
from evenbeat.core.runs.settle import Recorded, SettledRun, Verdict, settle, stop_job
from evenbeat.observe import failpoint, log
from evenbeat.observe.metrics import Metrics
from evenbeat.observe.run_reports import count_outcomes, log_ends
from evenbeat.store.database.pool import Database, DatabaseClock
from evenbeat.store.jobs import groups
from evenbeat.store.runs import completions
from evenbeat.store.runs.completions import WrittenRuns

LARGEST_BATCH = 500
RETRY_AFTER = 0.5
LOOK_AGAIN = 1.0

# PostgreSQL refuses the values themselves: trying again does not help.
UNSTORABLE = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)
# Any other error of PostgreSQL passes: a deadlock, a time limit, a read-only server.
RETRYABLE_ERRORS = (StoreUnavailable, asyncpg.PostgresError)
# What a statement raises while another open transaction holds the row of a job.
LOCK_ERRORS = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)


@frozen_value
class EndedRun:
    """A run that has ended, and how."""

    claimed: HeldRun
    outcome: Outcome
    duration: timedelta | None
    # Set where the handler has recorded the end itself.
    recorded: Recorded | None = None


class Recorder:
    """Writes one batch at a time; runs that end meanwhile make up the next batch."""

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        *,
        on_recorded: Callable[[], None] = lambda: None,
        on_stopped: Callable[[Collection[int]], None] = lambda job_ids: None,
    ) -> None:
        """`on_recorded` is called after every batch, `on_stopped` with the ids of recurring jobs
        that have no next beat any more."""
        self.watch = DatabaseClock(database)
        # Runs of this node, from their claim until their end is written.
        self.in_hand: dict[int, HeldRun] = {}
        self._database = database
        self._metrics = metrics
        self._on_recorded = on_recorded
        self._on_stopped = on_stopped
        self._ended: list[EndedRun] = []
        self._writing: list[EndedRun] = []
        # Ends that wait, since another open transaction holds the row of their job.
        self._held_up: list[EndedRun] = []
        self._has_ended = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def unwritten(self) -> int:
        """How many ends are to be written, without those that other transactions hold up."""
        return len(self._ended) + len(self._writing)

    def report_recorded(self, claimed: HeldRun, recorded: Recorded) -> None:
        """Report an end that the handler has recorded itself."""
        settled = SettledRun(claimed, recorded.verdict, recorded.duration)
        self._report([settled], {claimed.run.id}, recorded.at)
        self.in_hand.pop(claimed.run.id, None)
        self._on_recorded()

    def add(self, ended: Sequence[EndedRun]) -> None:
        self._ended.extend(ended)
        self._is_idle.clear()
        self._has_ended.set()

    async def run(self) -> None:
        """Write until cancelled. If a batch fails, the next one is written all the same."""
        while True:
            batch, left = await self._next_batch(), list[EndedRun]()
            self._writing = batch
            try:
                left = await self._persist(batch)
            except Exception as error:
                log_failure(error)
            self._writing = []
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
                await self._retry_held_up()
            else:
                await self._has_ended.wait()
            if self._ended:
                batch, self._ended = self._ended[:LARGEST_BATCH], self._ended[LARGEST_BATCH:]
                return batch

    async def _retry_held_up(self) -> None:
        """Queue the ends again whose job is not locked any more."""
        try:
            free, self._held_up = await self._split_by_locks(self._held_up)
        except RETRYABLE_ERRORS as error:
            log_failure(error)
        else:
            self._ended += free

    async def _split_by_locks(
        self, batch: Sequence[EndedRun]
    ) -> tuple[list[EndedRun], list[EndedRun]]:
        """The ends that can be written now, and those whose job another transaction has locked."""
        unlocked = await completions.find_unlocked_jobs(
            self._database, [each.claimed.id for each in batch]
        )
        free = [each for each in batch if each.claimed.id in unlocked]
        return free, [each for each in batch if each.claimed.id not in unlocked]

    async def drain(self) -> None:
        """Return when everything that was added has been written."""
        await self._is_idle.wait()

    async def _persist(self, batch: list[EndedRun]) -> list[EndedRun]:
        """Write until the database answers; returns the held-up ends, as `write` does."""
        is_in_doubt = False
        while True:
            try:
                return await self.write(batch, is_in_doubt=is_in_doubt)
            except RETRYABLE_ERRORS as error:
                # The tokens still fence, so a second try cannot write a run twice. But the first
                # try may have written it, and only its answer was lost.
                is_in_doubt = True
                log_failure(error)
                await asyncio.sleep(RETRY_AFTER)

    async def write(
        self, batch: Sequence[EndedRun], *, is_in_doubt: bool = False
    ) -> list[EndedRun]:
        """Write the ends of these runs; one that cannot be stored does not hold up the others.

        Nor does one whose job is locked by another transaction: such ends are returned, and the
        caller tries them later. `is_in_doubt`: an earlier try, whose answer was lost, may have
        written the batch.
        """
        try:
            await self._write_together(batch, is_in_doubt)
        except UNSTORABLE:
            for ended in batch:
                await self._write_alone(ended, is_in_doubt)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, LOCK_ERRORS):
                raise
            free, left = await self._split_by_locks(batch)
            if not left:
                raise
            log_failure(error)
            if free:
                await self._write_together(free, is_in_doubt)
            return left
        return []

    async def _write_alone(self, ended: EndedRun, is_in_doubt: bool) -> None:
        """Write the end as it was reported; else as a failed run; else by stopping the job."""
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
        """Settle a batch by the database's clock, write it, and report what became of each run."""
        now = await self.watch.now()
        settled = [
            SettledRun(ended.claimed, decide_verdict(ended, now), ended.duration) for ended in batch
        ]
        failpoint.reach("before_complete")
        written = await completions.complete_runs(self._database, settled)
        failpoint.reach("completed")
        if is_in_doubt:
            written = await self._with_unanswered(settled, written)
        self._report(settled, written.run_ids, now)
        if written.group_ids:
            failpoint.reach("before_unpark")
            await self._unpark(written)

    def _report(self, batch: Sequence[SettledRun], run_ids: Collection[int], now: datetime) -> None:
        """Log and count these ends. Runs not in `run_ids` were fenced: they are only logged."""
        log_ends(batch, run_ids, now)
        count_outcomes(self._metrics, batch, run_ids)
        stopped = [each.claimed for each in batch if has_stopped_recurring(each)]
        if stopped:
            self._on_stopped([held.id for held in stopped if held.run.id in run_ids])

    async def _with_unanswered(
        self, batch: Sequence[SettledRun], written: WrittenRuns
    ) -> WrittenRuns:
        """Add the runs that an earlier try has written: its answer was lost, the rows are there."""
        missing = [each for each in batch if each.claimed.run.id not in written.run_ids]
        if not missing:
            return written
        unanswered = await completions.find_written_runs(self._database, missing)
        return replace(written, run_ids=written.run_ids | unanswered)

    async def _unpark(self, written: WrittenRuns) -> None:
        try:
            await groups.unpark_jobs(self._database, written.group_ids)
        except RETRYABLE_ERRORS as error:
            # The runs are written. The group gate lets the waiting jobs in.
            log_failure(error)


def decide_verdict(ended: EndedRun, now: datetime) -> Verdict:
    if isinstance(ended.claimed, UnrunnableClaim):
        return stop_job(ended.claimed.error)
    try:
        return settle(ended.claimed, ended.outcome, now)
    except Exception as error:
        return stop_job(describe_error(error, "what follows from the run cannot be decided"))


def has_stopped_recurring(settled: SettledRun) -> bool:
    """Whether a recurring job has no next beat any more: it ended, was stopped or is paused."""
    held, verdict = settled.claimed, settled.verdict
    if verdict.state is State.PAUSED:
        return True
    if not verdict.moves_cursor or verdict.next_beat_at is not None:
        return False
    return isinstance(held, UnrunnableClaim) or held.definition.timetable.schedule.is_recurring


def log_failure(error: Exception) -> None:
    log.loop_failed("recorder", error, with_trace=not isinstance(error, RETRYABLE_ERRORS))
