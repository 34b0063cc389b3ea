"""The rules that the tables must obey, and what else `verify` reads, all of one snapshot.

control/ops/verify.py says what it means.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from evenbeat.core.balance.footprint import Footprint
from evenbeat.core.errors import EvenbeatError
from evenbeat.core.jobs.model import Cause, Policy
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.codes import CAUSES
from evenbeat.store.database.pool import Database, Session, open_read_snapshot
from evenbeat.store.database.statements import join_statements, load_statements
from evenbeat.store.jobs.definitions import decode_timetable
from evenbeat.store.jobs.jobs import DECODE_ERRORS

SQL = load_statements("ops/verify")
RULE_FILES = tuple(f"ops/verify_{area}" for area in ("jobs", "runs", "groups", "balance", "ops"))
RULES = tuple(name for file in RULE_FILES for name in load_statements(file))
# As one statement: one by one, most of the time went to round trips.
ALL_RULES = join_statements(("ops/verify", *RULE_FILES), RULES, by="of_one_rule", word="union all")
# Jobs whose history is read at once, and how much of it: they bound the memory.
JOBS_AT_ONCE = 100
NEWEST = 10_000
# A claim and the end of a run may seem to overlap by the time between the start of a statement and
# its snapshot: a few milliseconds on a busy machine.
SLACK = timedelta(milliseconds=50)
# How long a dead node may go unnoticed, and claims under way may still start runs in a group that
# was paused.
GRACE = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class CheckedCounts:
    """How much was checked."""

    jobs: int
    runs: int


@dataclass(frozen=True, slots=True)
class BeatRecord:
    """A run of a beat, or, with `until_at`, a row of missed beats; a manual run has no beat."""

    number: int
    is_manual: bool
    beat_at: datetime | None
    until_at: datetime | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class BeatHistory:
    """What became of the beats of one recurring job, in the order of its runs.

    All of it is since `planned_at`, and of runs later than `run_number`; `is_unrun`: there was none
    yet. `cursor` is the beat that comes next; None where it does not follow from what came before.
    """

    job_id: int
    timetable: Timetable
    planned_at: datetime
    run_number: int
    is_unrun: bool
    cursor: datetime | None
    entries: tuple[BeatRecord, ...]


class Snapshot:
    """One moment of the whole database, however long the checks take."""

    def __init__(self, connection: Any, clock: str, grace: timedelta) -> None:
        self._session = Session(connection, clock)
        self._given: dict[str, Any] = {
            "slack": SLACK,
            "grace": grace,
            "default_attempts": Policy().max_attempts,
            "has_one_clock": clock == "database",
        }

    async def scope(self) -> CheckedCounts:
        row = await self._session.fetch_row(SQL["scope"])
        return CheckedCounts(*(row or (0, 0)))

    async def breaches(self, most: int) -> list[tuple[str, str]]:
        """The rules that are broken and what breaks them, up to `most` breaches of each."""
        rows = await self._session.fetch(ALL_RULES, most=most, **self._given)
        return [(row["rule"], row["breach"]) for row in rows]

    async def beat_histories(self) -> AsyncIterator[BeatHistory]:
        """The recurring jobs whose beats follow from their timetable alone."""
        after = 0
        while jobs := await self._session.fetch(
            SQL["recurring_jobs"], after=after, limit=JOBS_AT_ONCE
        ):
            rows = await self._session.fetch(
                SQL["beat_records"], job_ids=[job["id"] for job in jobs], newest=NEWEST
            )
            entries = {
                job_id: tuple(map(beat_record_from, of_job))
                for job_id, of_job in groupby(rows, key=lambda row: row["job_id"])
            }
            for job in jobs:
                account = beat_history_from(job, entries.get(job["id"], ()))
                if account is not None:
                    yield account
            after = jobs[-1]["id"]

    async def mapped_footprints(self) -> AsyncIterator[tuple[int, Footprint, Timetable]]:
        """What the map holds of each job, and by which timetable it beats."""
        after = 0
        while rows := await self._session.fetch(
            SQL["mapped_footprints"], after=after, limit=NEWEST
        ):
            for row in rows:
                try:
                    timetable = decode_timetable(row["timetable"].encode())
                    counted = row["counted"] and decode_timetable(row["counted"].encode())
                except DECODE_ERRORS:
                    continue
                yield (
                    row["job_id"],
                    Footprint(row["interval_s"], row["phase_s"], row["cost_s"], counted),
                    timetable,
                )
            after = rows[-1]["job_id"]


@contextlib.asynccontextmanager
async def open_snapshot(database: Database, grace: timedelta = GRACE) -> AsyncGenerator[Snapshot]:
    async with open_read_snapshot(database.route) as connection:
        yield Snapshot(connection, database.clock, grace)


def beat_history_from(job: Any, entries: tuple[BeatRecord, ...]) -> BeatHistory | None:
    try:
        timetable = Timetable.from_object(job["timetable"])
    except EvenbeatError:
        # The engine has stopped a job whose timetable cannot be read: its history says so.
        return None
    if not timetable.schedule.is_recurring:
        return None
    is_open = job["is_running"] or job["retry_at"] is not None
    cursor = None if is_open else job["next_beat_at"]
    return BeatHistory(
        job["id"],
        timetable,
        job["planned_at"],
        job["run_number"],
        job["is_unrun"],
        cursor,
        entries,
    )


def beat_record_from(row: Any) -> BeatRecord:
    return BeatRecord(
        number=row["number"],
        is_manual=CAUSES[row["cause"]] is Cause.MANUAL,
        beat_at=row["beat_at"],
        until_at=row["skipped_until"],
        count=row["skipped_count"],
    )
