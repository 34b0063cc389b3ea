"""Jobs that came by SQL and wait for their beat."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load
from evenbeat.store.jobs import definitions, jobs
from evenbeat.store.jobs.jobs import NONSENSE, Standing

SQL = load("jobs/unplanned")


@dataclass(frozen=True, slots=True)
class Unplanned:
    """A job that is owed beats since an instant.

    `owed_at` is a beat of its old timetable that was due and is still to be run; those of
    `old_timetable` after `passed_from` will not be.
    """

    job: Standing
    since: datetime
    owed_at: datetime | None
    passed_from: datetime | None
    old_timetable: Timetable | None


@dataclass(frozen=True, slots=True)
class Planned:
    """What was worked out for it; None: no beat is left."""

    job: Standing
    next_beat_at: datetime | None
    owed_at: datetime | None


async def is_any(session: Session) -> bool:
    return await session.fetch_value(SQL["is_any"])


async def take(session: Session, *, limit: int) -> list[Unplanned]:
    """Lock the first of them until the end of the transaction."""
    rows = {row["uid"]: row for row in await session.fetch(SQL["waiting"], limit=limit)}
    found = await jobs.standing(session, list(rows)) if rows else []
    return [
        Unplanned(
            job,
            rows[job.uid]["since"],
            rows[job.uid]["owed_at"],
            rows[job.uid]["passed_from"],
            readable(rows[job.uid]["old_timetable"]),
        )
        for job in found
    ]


async def plan(session: Session, planned: Sequence[Planned]) -> None:
    await session.execute(
        SQL["plan"],
        job_ids=[each.job.id for each in planned],
        next_beats=[each.next_beat_at for each in planned],
        owed=[each.owed_at for each in planned],
    )


def readable(text: str | None) -> Timetable | None:
    """None where this version cannot read it: what it passed over cannot be told then."""
    try:
        return None if text is None else definitions.timetable_of(text.encode())
    except NONSENSE:
        return None
