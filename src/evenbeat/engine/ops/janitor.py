"""The janitor: counts runs by day and removes what need not be kept, in small pieces."""

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from evenbeat.config import Settings
from evenbeat.core.ops.housekeeping import (
    LARGEST_PIECE,
    Chore,
    PieceResult,
    next_piece_size,
    pause_after,
)
from evenbeat.observe import failpoint, log
from evenbeat.placement.placer import Placer
from evenbeat.placement.score_recording import record_score
from evenbeat.store.balance import load_map, rebalance_plans, scores, unplaced_jobs
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.ops import chores, figures, idempotency, retention, tokens

COUNT_EVERY = timedelta(minutes=1)
# Long enough to find out whose token it was that is refused.
KEEP_EXPIRED_TOKENS = timedelta(days=30)
STRAYS_EVERY = timedelta(days=1)
# A person may have asked for a round meanwhile, or a node may have died during one.
LOOK_EVERY = timedelta(seconds=5)
# Counting the jobs reads all of them: it may take a hundredth of the time.
COUNT_JOBS_AFTER = 100
# One plan may have thousands of moves.
MOVES_PER_PLAN = 100
# Chores that remove rows are logged as info; the others only read and count.
REMOVING = ("runs", "jobs", "days", chores.LETTERS, "answers", "tokens", "plans", "scores")

Work = Callable[[Session, Chore, int], Awaitable[PieceResult]]


class Janitor:
    """Every node has one. A lock on the row of a chore lets one node at a time do a piece of it."""

    def __init__(
        self, database: Database, settings: Settings, placement: Placer | None = None
    ) -> None:
        """Pass the node's own `placement`, so that the process has one copy of the map."""
        self._database = database
        self._placement = placement or Placer(database, settings.balancing)
        self._share = settings.housekeeping_share
        self._keep = retention.RetentionLimits(
            runs=settings.keep_runs,
            runs_for=settings.keep_runs_for,
            finished_jobs_for=settings.keep_finished_jobs_for,
            statistics_for=settings.keep_statistics_for,
            dead_letters_for=settings.keep_dead_letters_for,
        )
        self._is_balancing = settings.balancing != "off"
        interval = settings.housekeeping_interval
        self._chores: dict[str, tuple[Work, timedelta]] = {
            chores.COUNT: (self._count, COUNT_EVERY),
            "runs": (self._remove_runs, interval),
            "jobs": (self._remove_jobs, interval),
            "days": (self._remove_days, interval),
            chores.LETTERS: (self._remove_letters, interval),
            "answers": (self._forget_answers, interval),
            "tokens": (self._forget_tokens, interval),
            "strays": (retention.remove_stray_ids, STRAYS_EVERY),
            "places": (self._reconcile_places, interval),
            "plans": (self._forget_plans, interval),
            "scores": (self._forget_scores, interval),
            "score": (self._keep_score, settings.score_interval),
            "figures": (self._take_figures, settings.metrics_interval),
            "jobs_by_state": (self._count_jobs, settings.metrics_interval),
        }
        # Chores take turns, so that one that always fails does not keep the others from running.
        self._order = list(self._chores)
        self._sizes = dict.fromkeys(self._chores, LARGEST_PIECE // 10)
        self._newest = 0
        self._are_known = False

    async def turn(self) -> timedelta:
        """Do one small piece of a chore that is due; returns how long to wait until the next."""
        if not self._are_known:
            await chores.ensure_chores(self._database, self._order)
            self._are_known = True
        waits = await chores.find_chore_waits(self._database, self._order)
        self._are_known = len(waits) == len(self._order)
        due = [name for name in self._order if waits.get(name) == timedelta(0)]
        for name in due:
            self._order.remove(name)
            self._order.append(name)
            pause = await self._do(name)
            if pause is not None:
                return pause
        return min([LOOK_EVERY, *(wait for name, wait in waits.items() if name not in due)])

    async def _do(self, name: str) -> timedelta | None:
        """Do one piece; None if another node has locked the chore."""
        if name == chores.COUNT:
            # Read before the transaction: every run with an id up to this began before it.
            self._newest = await retention.find_newest_run_id(self._database)
        work, interval = self._chores[name]
        began, size = time.monotonic(), self._sizes[name]
        async with self._database.transaction() as session:
            chore = await chores.take_chore(session, name)
            if chore is None:
                return None
            piece = await work(session, chore, size)
            took = piece.spent or timedelta(seconds=time.monotonic() - began)
            pause = pause_after(took, self._share)
            until_next = self._until_next(name, interval, took) if piece.is_end else pause
            done = await chores.record_piece(session, name, piece, took=took, pause=until_next)
            failpoint.reach("before_housekeeping_commit")
        self._sizes[name] = next_piece_size(size, took)
        if done is not None:
            log_chore(done)
        return pause

    def _until_next(self, name: str, interval: timedelta, took: timedelta) -> timedelta:
        return max(interval, took * COUNT_JOBS_AFTER) if name == "jobs_by_state" else interval

    async def _count(self, session: Session, chore: Chore, size: int) -> PieceResult:
        return await retention.count_runs_into_days(session, chore, size, newest=self._newest)

    async def _remove_runs(self, session: Session, chore: Chore, size: int) -> PieceResult:
        return await retention.remove_runs(session, chore, size, self._keep)

    async def _remove_jobs(self, session: Session, chore: Chore, size: int) -> PieceResult:
        return await retention.remove_jobs(session, chore, size, self._keep)

    async def _remove_days(self, session: Session, chore: Chore, size: int) -> PieceResult:
        return await retention.remove_days(session, chore, size, self._keep)

    async def _remove_letters(self, session: Session, chore: Chore, size: int) -> PieceResult:
        return await retention.remove_letters(session, chore, size, self._keep)

    async def _forget_answers(self, session: Session, chore: Chore, size: int) -> PieceResult:
        """Answers that are kept for requests which may come twice."""
        forgotten = await idempotency.expire_keys(session, limit=size)
        return PieceResult(0, forgotten, is_end=forgotten < size)

    async def _forget_tokens(self, session: Session, chore: Chore, size: int) -> PieceResult:
        forgotten = await tokens.remove_expired_tokens(
            session, kept=KEEP_EXPIRED_TOKENS, limit=size
        )
        return PieceResult(0, forgotten, is_end=forgotten < size)

    async def _reconcile_places(self, session: Session, chore: Chore, size: int) -> PieceResult:
        """Mark jobs whose entry in the map is out of date: ended, or slower than they were."""
        if not self._is_balancing:
            return PieceResult(0, 0, is_end=True)
        until, count = await unplaced_jobs.mark_mismatches(session, after=chore.cursor, limit=size)
        if until is None:
            await load_map.prune_changes(session)
        return PieceResult(until or 0, count, is_end=until is None)

    async def _forget_plans(self, session: Session, chore: Chore, size: int) -> PieceResult:
        # Plans are removed with all their moves, so only a few at a time.
        most = max(1, size // MOVES_PER_PLAN)
        forgotten = await rebalance_plans.remove_old_plans(session, limit=most)
        return PieceResult(0, forgotten, is_end=forgotten < most)

    async def _forget_scores(self, session: Session, chore: Chore, size: int) -> PieceResult:
        forgotten = await scores.remove_old_scores(
            session, kept_for=self._keep.statistics_for, limit=size
        )
        return PieceResult(0, forgotten, is_end=forgotten < size)

    async def _keep_score(self, session: Session, chore: Chore, size: int) -> PieceResult:
        await record_score(session, self._placement)
        return PieceResult(0, 0, is_end=True)

    async def _take_figures(self, session: Session, chore: Chore, size: int) -> PieceResult:
        await figures.save_figures(session)
        return PieceResult(0, 0, is_end=True)

    async def _count_jobs(self, session: Session, chore: Chore, size: int) -> PieceResult:
        return PieceResult(0, await figures.save_job_counts(session), is_end=True)


def log_chore(done: Chore) -> None:
    """Log a finished round: as info if it removed something, else for debugging."""
    logger = log.get_logger()
    write = logger.info if done.last_count and done.name in REMOVING else logger.debug
    write(
        log.HOUSEKEEPING_DONE,
        chore=done.name,
        count=done.last_count,
        took=round(done.last_took.total_seconds(), 3),
    )
