"""Jobs that were added by SQL, and wait for a node to plan their beats."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from evenbeat.core.jobs.model import State
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.codes import STATES
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs import definitions, jobs
from evenbeat.store.jobs.jobs import DECODE_ERRORS, StoredJob

SQL = load_statements("jobs/unplanned_jobs")


@dataclass(frozen=True, slots=True)
class UnplannedJob:
    """A job that needs a beat after `since`.

    `owed_at` is a beat of its old timetable that was due and is still to be run. The other beats
    of `old_timetable` from `passed_from` until `since` will not be run: the job was paused or
    disabled (`passed_in`), or the timetable was replaced (None).
    """

    job: StoredJob
    since: datetime
    owed_at: datetime | None
    passed_from: datetime | None
    old_timetable: Timetable | None
    passed_in: State | None


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """The beats that were planned for a job; `next_beat_at` is None if none is left."""

    job: StoredJob
    next_beat_at: datetime | None
    owed_at: datetime | None


async def is_any_unplanned(session: Session) -> bool:
    return await session.fetch_value(SQL["is_any"])


async def lock_unplanned_jobs(session: Session, *, limit: int) -> list[UnplannedJob]:
    """The first unplanned jobs, locked until the end of the transaction."""
    rows = {row["uid"]: row for row in await session.fetch(SQL["lock_unplanned_jobs"], limit=limit)}
    found = await jobs.find_stored_jobs(session, list(rows)) if rows else []
    return [
        UnplannedJob(
            job,
            rows[job.uid]["since"],
            rows[job.uid]["owed_at"],
            rows[job.uid]["passed_from"],
            decode_old_timetable(rows[job.uid]["old_timetable"]),
            decode_state(rows[job.uid]["passed_in"]),
        )
        for job in found
    ]


async def write_plans(session: Session, planned: Sequence[PlannedJob]) -> None:
    await session.execute(
        SQL["plan"],
        job_ids=[each.job.id for each in planned],
        next_beats=[each.next_beat_at for each in planned],
        owed=[each.owed_at for each in planned],
    )


def decode_state(code: bytes | None) -> State | None:
    return None if code is None else STATES[code]


def decode_old_timetable(text: str | None) -> Timetable | None:
    """None if this version cannot read it: the beats that it passed over are then not recorded."""
    try:
        return None if text is None else definitions.decode_timetable(text.encode())
    except DECODE_ERRORS:
        return None
