"""Chores: one row for each, which a node locks to do the next piece of housekeeping."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import asyncpg

from evenbeat.core.ops.housekeeping import Chore, PieceResult
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("ops/chores")
# Other chores wait for this one: nothing is removed before it is counted.
COUNT = "count"
# Its goal is the newest removed letter.
LETTERS = "letters"


async def ensure_chores(session: Session, names: Sequence[str]) -> None:
    await session.execute(SQL["ensure"], names=list(names))


async def find_chore_waits(session: Session, names: Sequence[str]) -> dict[str, timedelta]:
    """How long until each of these is due; 0 for those that are."""
    rows = await session.fetch(SQL["waits"], names=list(names))
    return {row["name"]: timedelta(seconds=max(row["seconds"], 0)) for row in rows}


async def take_chore(session: Session, name: str) -> Chore | None:
    """Lock a chore for one piece. None: another node has it, or it is not due."""
    row = await session.fetch_row(SQL["take"], name=name)
    if row is None:
        return None
    return replace(chore_from(row), is_sweep_due=row["is_sweep_due"], is_settled=row["is_settled"])


async def record_piece(
    session: Session, name: str, piece: PieceResult, *, took: timedelta, pause: timedelta
) -> Chore | None:
    """Record the result of a piece; returns the chore after the last piece of a round."""
    row = await session.fetch_row(
        SQL["record_piece"],
        name=name,
        cursor=piece.cursor,
        count=piece.count,
        is_end=piece.is_end,
        is_sweep=piece.is_sweep,
        took_ms=took / timedelta(milliseconds=1),
        pause=pause,
    )
    return chore_from(row) if row is not None and piece.is_end else None


async def set_count_goal(session: Session, newest: int) -> None:
    """Count up to this id next time; `newest` must have been read before this transaction."""
    await session.execute(SQL["set_goal"], name=COUNT, newest=newest)


async def make_all_due(session: Session) -> None:
    """Make every chore due now, from its first key on."""
    await session.execute(SQL["make_all_due"], counting=COUNT)


async def list_chores(session: Session) -> list[Chore]:
    return [chore_from(row) for row in await session.fetch(SQL["status"])]


def chore_from(row: asyncpg.Record) -> Chore:
    return Chore(
        name=row["name"],
        cursor=row["cursor"],
        goal=row["goal"],
        next_at=row["next_at"],
        last_at=row["last_at"],
        last_count=row["last_count"],
        last_took=timedelta(milliseconds=row["last_ms"]),
        total_count=row["total_count"],
    )
