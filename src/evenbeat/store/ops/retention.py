"""Retention: what is kept and for how long, a small piece at a time, and counted before it goes."""

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
    """A run goes when it is both older than `runs_for` and beyond the `runs` newest of its job."""

    runs: int
    runs_for: timedelta
    finished_jobs_for: timedelta
    statistics_for: timedelta
    dead_letters_for: timedelta


class TimedStatements:
    """Statements that say how long they took where they ran, and what they add up to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.spent = timedelta(0)

    async def ask(self, statement: str, **given: object) -> asyncpg.Record:
        [row] = await self._session.fetch(SQL[statement], **given)
        self.spent += timedelta(milliseconds=row["ms"])
        return row


async def find_newest_run_id(session: Session) -> int:
    """The last run id that was drawn, by whomever, committed or not."""
    return await session.fetch_value(SQL["newest_id"])


async def count_runs_into_days(
    session: Session, chore: Chore, size: int, *, newest: int
) -> PieceResult:
    """Add the next runs to their days: those behind the cursor, then late ones that have closed.

    Ids are drawn by claims, and rows come when runs close: an id up to the goal that has no row
    is of a run under way, and is remembered as late, or of a claim that came to nothing.
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
    # The round ends when it is caught up and has a new goal, with the piece after the last.
    return PieceResult(until, len(counted), is_end=False, spent=spent)


async def count_runs_by_id(session: Session, ids: Sequence[int]) -> timedelta | None:
    if not ids:
        return None
    server = TimedStatements(session)
    await server.ask("count_runs", ids=ids)
    return server.spent


async def find_end_of_gap(session: Session, chore: Chore) -> int:
    """Just before the next run in the history: a gap may be as wide as a sequence was set ahead."""
    following = await session.fetch_value(SQL["next_closed_id"], after=chore.cursor)
    return chore.goal if following is None else min(following - 1, chore.goal)


async def fetch_ids(session: Session, statement: str, **given: int) -> list[int]:
    return [row["id"] for row in await session.fetch(SQL[statement], **given)]


async def remove_stray_ids(session: Session, chore: Chore, size: int) -> PieceResult:
    """Late ids that no run will ever have: their claims came to nothing."""
    strays = await fetch_ids(session, "stray_late", after=0, limit=size)
    await session.execute(SQL["forget_late"], ids=strays)
    return PieceResult(0, len(strays), is_end=len(strays) < size)


async def remove_runs(
    session: Session, chore: Chore, size: int, keep: RetentionLimits
) -> PieceResult:
    """The next old runs, with their log lines; the round ends where runs are too young to go.

    The next round goes on from there, since only what has aged meanwhile is new to it. Once a
    day it begins with the first run again: some were kept only because they were their job's
    newest.
    """
    server = TimedStatements(session)
    found = await server.ask(
        "old_runs", after=chore.cursor, limit=size, keep=keep.runs, keep_for=keep.runs_for
    )
    ids, is_end = found["ids"], found["seen"] < size
    cursor, removed, is_first = found["last_id"] or chore.cursor, 0, chore.cursor == 0
    if ids:
        most = size * LINES_PER_RUN
        lines = await server.ask("remove_lines", run_ids=ids, limit=most)
        if lines["count"] == most:
            # There may be more of them: the same runs once again.
            return PieceResult(chore.cursor, 0, is_end=False, is_sweep=is_first, spent=server.spent)
        removed = (await server.ask("remove_runs", ids=ids))["count"]
    if found["young_id"] is not None:
        cursor, is_end = found["young_id"] - 1, True
    if is_end and chore.is_sweep_due and not is_first:
        cursor = 0
    return PieceResult(cursor, removed, is_end=is_end, is_sweep=is_first, spent=server.spent)


async def remove_jobs(
    session: Session, chore: Chore, size: int, keep: RetentionLimits
) -> PieceResult:
    """The next finished one-off jobs and deleted jobs; their statistics stay, without their id."""
    server = TimedStatements(session)
    found = await server.ask(
        "old_jobs", after=chore.cursor, limit=size, keep_for=keep.finished_jobs_for
    )
    ids, is_end = found["ids"], found["seen"] < size
    # Folding and removing take several times as long a row as looking: then the clock decides.
    spent = None if ids else server.spent
    if ids:
        await session.execute(SQL["fold_days"], job_ids=ids)
        await session.execute(SQL["remove_jobs"], job_ids=ids)
    return PieceResult(0 if is_end else found["last_id"], len(ids), is_end=is_end, spent=spent)


async def remove_days(
    session: Session, chore: Chore, size: int, keep: RetentionLimits
) -> PieceResult:
    """Statistics that are too old."""
    removed = await session.execute(SQL["remove_days"], keep_for=keep.statistics_for, limit=size)
    return PieceResult(0, removed, is_end=removed < size)


async def remove_letters(
    session: Session, chore: Chore, size: int, keep: RetentionLimits
) -> PieceResult:
    """Dead letters that somebody saw to long ago."""
    removed = await session.fetch_value(
        SQL["remove_letters"], keep_for=keep.dead_letters_for, limit=size, chore=chore.name
    )
    return PieceResult(0, removed, is_end=removed < size)
