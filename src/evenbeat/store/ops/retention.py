"""Retention: counts runs into days, and removes old rows in small pieces."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from evenbeat.core.ops.housekeeping import Chore, PieceResult
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.ops import chores

SQL = load_statements("ops/retention")
# Log lines are narrow: more of them than of runs make up a piece.
LINES_PER_RUN = 5


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """A run is removed once it is older than `runs_for` and not among its job's `runs` newest."""

    runs: int
    runs_for: timedelta
    finished_jobs_for: timedelta
    statistics_for: timedelta
    dead_letters_for: timedelta


class TimedStatements:
    """Runs statements that return how long they took in the server; `spent` is the sum."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.spent = timedelta(0)

    async def fetch_timed(self, statement: str, **given: object) -> asyncpg.Record:
        [row] = await self._session.fetch(SQL[statement], **given)
        self.spent += timedelta(milliseconds=row["ms"])
        return row


async def find_newest_run_id(session: Session) -> int:
    """The last run id that any transaction took from the sequence, committed or not."""
    return await session.fetch_value(SQL["newest_id"])


async def count_runs_into_days(
    session: Session, chore: Chore, size: int, *, newest: int
) -> PieceResult:
    """Add the next runs to their days: those after the cursor, then late ones that have ended.

    A claim takes the id of a run, and the end of the run inserts its row. An id up to the goal
    without a row belongs to a run in progress, which is remembered as late, or to a claim that
    failed.
    """
    late = await fetch_ids(session, "closed_late", limit=size)
    await session.execute(SQL["forget_late"], ids=late)
    if not chore.is_settled or chore.cursor >= chore.goal:
        if chore.is_settled:
            await chores.set_count_goal(session, newest)
        spent = await count_runs_by_id(session, late)
        return PieceResult(chore.cursor, len(late), is_end=len(late) < size, spent=spent)
    until = min(chore.cursor + size, chore.goal)
    closed = await fetch_ids(session, "closed_ids", after=chore.cursor, until=until)
    if closed:
        open_ids = sorted(set(range(chore.cursor + 1, until + 1)) - set(closed))
    else:
        until = await find_end_of_gap(session, chore)
        open_ids = await fetch_ids(session, "in_hand_ids", after=chore.cursor, until=until)
    await session.execute(SQL["remember_late"], ids=open_ids)
    counted = [*late, *closed]
    spent = await count_runs_by_id(session, counted)
    # The next piece finds the cursor at the goal, sets a new goal and ends the round.
    return PieceResult(until, len(counted), is_end=False, spent=spent)


async def count_runs_by_id(session: Session, ids: Sequence[int]) -> timedelta | None:
    if not ids:
        return None
    statements = TimedStatements(session)
    await statements.fetch_timed("count_runs", ids=ids)
    return statements.spent


async def find_end_of_gap(session: Session, chore: Chore) -> int:
    """The id before the next run in the history; the gap may be wide."""
    following = await session.fetch_value(SQL["next_closed_id"], after=chore.cursor)
    return chore.goal if following is None else min(following - 1, chore.goal)


async def fetch_ids(session: Session, statement: str, **given: int) -> list[int]:
    return [row["id"] for row in await session.fetch(SQL[statement], **given)]


async def remove_stray_ids(session: Session, chore: Chore, size: int) -> PieceResult:
    """Remove late ids of claims that failed: no run will ever have them."""
    strays = await fetch_ids(session, "stray_late", after=0, limit=size)
    await session.execute(SQL["forget_late"], ids=strays)
    return PieceResult(0, len(strays), is_end=len(strays) < size)


async def remove_runs(
    session: Session, chore: Chore, size: int, keep: RetentionLimits
) -> PieceResult:
    """Remove the next old runs with their log lines; the round ends at the first run that is young.

    The next round continues there: only runs that have become old since are new to it. Once a day
    it starts with the first run again, since some stayed only as the newest of their job.
    """
    statements = TimedStatements(session)
    found = await statements.fetch_timed(
        "old_runs", after=chore.cursor, limit=size, keep=keep.runs, keep_for=keep.runs_for
    )
    ids, is_end = found["ids"], found["seen"] < size
    cursor, removed, is_first = found["last_id"] or chore.cursor, 0, chore.cursor == 0
    if ids:
        most = size * LINES_PER_RUN
        lines = await statements.fetch_timed("remove_lines", run_ids=ids, limit=most)
        if lines["count"] == most:
            # There may be more lines: the next piece takes the same runs again.
            return PieceResult(
                chore.cursor, 0, is_end=False, is_sweep=is_first, spent=statements.spent
            )
        removed = (await statements.fetch_timed("remove_runs", ids=ids))["count"]
    if found["young_id"] is not None:
        cursor, is_end = found["young_id"] - 1, True
    if is_end and chore.is_sweep_due and not is_first:
        cursor = 0
    return PieceResult(cursor, removed, is_end=is_end, is_sweep=is_first, spent=statements.spent)


async def remove_jobs(
    session: Session, chore: Chore, size: int, keep: RetentionLimits
) -> PieceResult:
    """Remove the next finished one-off jobs and deleted jobs; their days are kept under job 0."""
    statements = TimedStatements(session)
    found = await statements.fetch_timed(
        "old_jobs", after=chore.cursor, limit=size, keep_for=keep.finished_jobs_for
    )
    ids, is_end = found["ids"], found["seen"] < size
    # Removing a row takes several times as long as finding it: then the caller measures the time.
    spent = None if ids else statements.spent
    if ids:
        await session.execute(SQL["fold_days"], job_ids=ids)
        await session.execute(SQL["remove_jobs"], job_ids=ids)
    return PieceResult(0 if is_end else found["last_id"], len(ids), is_end=is_end, spent=spent)


async def remove_days(
    session: Session, chore: Chore, size: int, keep: RetentionLimits
) -> PieceResult:
    """Remove statistics that are too old."""
    removed = await session.execute(SQL["remove_days"], keep_for=keep.statistics_for, limit=size)
    return PieceResult(0, removed, is_end=removed < size)


async def remove_letters(
    session: Session, chore: Chore, size: int, keep: RetentionLimits
) -> PieceResult:
    """Remove dead letters that were acknowledged long ago."""
    removed = await session.fetch_value(
        SQL["remove_letters"], keep_for=keep.dead_letters_for, limit=size, chore=chore.name
    )
    return PieceResult(0, removed, is_end=removed < size)
