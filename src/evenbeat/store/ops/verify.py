"""What the tables must obey, looked at in one snapshot; control/verify says what it means."""

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
from evenbeat.store.database.pool import Database, Session, moment
from evenbeat.store.database.statements import joined, load
from evenbeat.store.jobs.definitions import timetable_of
from evenbeat.store.jobs.jobs import NONSENSE

SQL = load("ops/verify")
HELPERS = ("scope", "recurring", "accounts", "mapped")
RULES = tuple(name for name in SQL if name not in HELPERS)
# One by one, most of the time went to asking.
ALL_AT_ONCE = joined("ops/verify", RULES, by="of_one_rule", word="union all")
# Jobs whose history is read at once, and how much of it: bounds of memory, not of what is told.
JOBS_AT_ONCE = 100
NEWEST = 10_000
# A claim and the end of a run may overlap by what passes between the start of a statement and
# its snapshot: a moment, on a machine with nothing to spare.
SLACK = timedelta(milliseconds=50)
# How long the dead may go unnoticed, and a paused group may finish what it was doing.
GRACE = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Scope:
    """How much was looked at."""

    jobs: int
    runs: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A run of a beat, or, with `until_at`, a row of missed beats; a manual run has no beat."""

    number: int
    is_manual: bool
    beat_at: datetime | None
    until_at: datetime | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the beats of one recurring job, in the order of its runs.

    All of it is since `planned_at`, and of runs later than `run_number`. `cursor` is the beat that
    comes next; None where it does not follow from what came before.
    """

    job_id: int
    timetable: Timetable
    planned_at: datetime
    run_number: int
    cursor: datetime | None
    entries: tuple[Entry, ...]


class Snapshot:
    """One moment of the whole database, however long it takes to look at it."""

    def __init__(self, connection: Any, clock: str, grace: timedelta) -> None:
        self._session = Session(connection, clock)
        self._given: dict[str, Any] = {
            "slack": SLACK,
            "grace": grace,
            "default_attempts": Policy().max_attempts,
            "has_one_clock": clock == "database",
        }

    async def scope(self) -> Scope:
        row = await self._session.fetch_row(SQL["scope"])
        return Scope(*(row or (0, 0)))

    async def breaches(self, most: int) -> list[tuple[str, str]]:
        """The rules that are broken and what breaks them, up to so many of each."""
        rows = await self._session.fetch(ALL_AT_ONCE, most=most, **self._given)
        return [(row["rule"], row["breach"]) for row in rows]

    async def accounts(self) -> AsyncIterator[Account]:
        """The recurring jobs whose beats follow from their timetable alone, a few at a time."""
        after = 0
        while jobs := await self._session.fetch(SQL["recurring"], after=after, limit=JOBS_AT_ONCE):
            rows = await self._session.fetch(
                SQL["accounts"], job_ids=[job["id"] for job in jobs], newest=NEWEST
            )
            entries = {
                job_id: tuple(map(entry_from, of_job))
                for job_id, of_job in groupby(rows, key=lambda row: row["job_id"])
            }
            for job in jobs:
                account = account_from(job, entries.get(job["id"], ()))
                if account is not None:
                    yield account
            after = jobs[-1]["id"]

    async def mapped(self) -> AsyncIterator[tuple[int, Footprint, Timetable]]:
        """What the map holds of each job, and by which timetable it beats."""
        after = 0
        while rows := await self._session.fetch(SQL["mapped"], after=after, limit=NEWEST):
            for row in rows:
                try:
                    timetable = timetable_of(row["timetable"].encode())
                    counted = row["counted"] and timetable_of(row["counted"].encode())
                except NONSENSE:
                    continue
                yield (
                    row["job_id"],
                    Footprint(row["interval_s"], row["phase_s"], row["cost_s"], counted),
                    timetable,
                )
            after = rows[-1]["job_id"]


@contextlib.asynccontextmanager
async def snapshot(database: Database, grace: timedelta = GRACE) -> AsyncGenerator[Snapshot]:
    async with moment(database.route) as connection:
        yield Snapshot(connection, database.clock, grace)


def account_from(job: Any, entries: tuple[Entry, ...]) -> Account | None:
    try:
        timetable = Timetable.from_object(job["timetable"])
    except EvenbeatError:
        # The engine has stopped such a job, and says so in its history.
        return None
    if not timetable.schedule.is_recurring:
        return None
    is_open = job["is_running"] or job["retry_at"] is not None
    cursor = None if is_open else job["next_beat_at"]
    return Account(job["id"], timetable, job["planned_at"], job["run_number"], cursor, entries)


def entry_from(row: Any) -> Entry:
    return Entry(
        number=row["number"],
        is_manual=CAUSES[row["cause"]] is Cause.MANUAL,
        beat_at=row["beat_at"],
        until_at=row["skipped_until"],
        count=row["skipped_count"],
    )
