"""Every job that counts, as a rebalance reads it."""

from dataclasses import dataclass
from uuid import UUID

import asyncpg

from evenbeat.core.balance.footprint import Footprint
from evenbeat.core.balance.model import RebalanceCandidate
from evenbeat.store.balance.load_map import footprint_from
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs.definitions import decode_timetable
from evenbeat.store.jobs.jobs import DECODE_ERRORS

SQL = load_statements("balance/rebalance_candidates")
PAGE = 5_000


@dataclass(frozen=True, slots=True)
class MappedJob:
    """A job of the map, with what a rebalance must know to move it."""

    uid: UUID
    name: str | None
    footprint: Footprint
    candidate: RebalanceCandidate


async def list_candidates(
    session: Session, *, start_s: int, group: str | None, is_mapped: bool
) -> list[MappedJob]:
    """Every job that counts; where there is no map, from the jobs themselves."""
    found: list[MappedJob] = []
    after, statement = 0, SQL["candidates" if is_mapped else "candidates_without_map"]
    while rows := await session.fetch(statement, after=after, limit=PAGE, group_key=group):
        for row in rows:
            mapped = mapped_job_from(row, start_s)
            if mapped is not None:
                found.append(mapped)
        after = rows[-1]["id"]
    return found


def mapped_job_from(row: asyncpg.Record, start_s: int) -> MappedJob | None:
    """None: this version cannot read the job's timetable."""
    try:
        if "interval_s" in row:
            footprint = footprint_from(row)
        else:
            footprint = Footprint.of_timetable(
                decode_timetable(row["timetable"].encode()), row["cost"]
            )
    except DECODE_ERRORS:
        return None
    candidate = RebalanceCandidate(
        footprint.load(start_s, row["id"]),
        row["next_beat_at"],
        row["placed_at"],
        row["is_running"],
        row["is_moving"],
    )
    return MappedJob(row["uid"], row["name"], footprint, candidate)
