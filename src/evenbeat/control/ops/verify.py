"""The verifier: finds whatever in the database breaks a promise.

Every rule holds at any moment, whichever process dies. Most rules are one SQL statement each, in
store/ops/verify_*.sql. Two are worked out here from the timetables: that no beat is lost, and that
the map of the load is true.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from evenbeat.core.balance.footprint import Footprint
from evenbeat.core.time.schedules.base.instants import RESOLUTION
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Database
from evenbeat.store.ops.verify import (
    GRACE,
    RULES,
    BeatHistory,
    BeatRecord,
    CheckedCounts,
    Snapshot,
    open_snapshot,
)

NO_BEAT_IS_LOST = "no_beat_is_lost"
THE_MAP_IS_TRUE = "the_map_has_every_job_where_it_beats"
ALL_RULES = (*RULES, NO_BEAT_IS_LOST, THE_MAP_IS_TRUE)
# More than a person reads. A rule that is broken this often is not broken by one job.
MOST_BREACHES = 100


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule, and what broke it."""

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule.replace('_', ' ')}: {self.detail}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How much was checked, and all breaches that were found."""

    scope: CheckedCounts
    breaches: tuple[Breach, ...]

    def breaches_of(self, rule: str) -> list[Breach]:
        return [breach for breach in self.breaches if breach.rule == rule]


async def verify(database: Database, *, grace: timedelta = GRACE) -> list[Breach]:
    """Everything that breaks a rule, up to a hundred breaches of each. Nothing is written."""
    return list((await build_verify_report(database, grace=grace)).breaches)


async def build_verify_report(database: Database, *, grace: timedelta = GRACE) -> VerifyReport:
    """Check one snapshot of the database. A dead node may be unnoticed for `grace`."""
    async with open_snapshot(database, grace) as seen:
        found = [Breach(*each) for each in await seen.breaches(MOST_BREACHES)]
        lost = [Breach(NO_BEAT_IS_LOST, detail) for detail in await find_lost_beats(seen)]
        wrong = [Breach(THE_MAP_IS_TRUE, detail) for detail in await find_misplaced_jobs(seen)]
        return VerifyReport(await seen.scope(), (*found, *lost, *wrong))


async def find_misplaced_jobs(seen: Snapshot) -> list[str]:
    found: list[str] = []
    async for job_id, counted, timetable in seen.mapped_footprints():
        beats = replace(Footprint.of_timetable(timetable), cost_s=counted.cost_s)
        if beats != counted and len(found) < MOST_BREACHES:
            found.append(
                f"job {job_id}: beats every {beats.interval_s} s at {beats.phase_s} s, "
                f"and is counted every {counted.interval_s} s at {counted.phase_s} s"
            )
    return found


async def find_lost_beats(seen: Snapshot) -> list[str]:
    found: list[str] = []
    async for history in seen.beat_histories():
        found.extend(islice(check_beats(history), MOST_BREACHES - len(found)))
        if len(found) >= MOST_BREACHES:
            break
    return found


def check_beats(history: BeatHistory) -> Iterator[str]:
    """Every beat up to the cursor is that of a run or inside exactly one row of missed beats.

    The runs of one beat follow each other. The first run of the next beat, or a row of missed
    beats, begins exactly one beat later. Only the beats of a pause may be recorded while a retry of
    the beat before still waits. A run by hand may take up a schedule that a person had stopped:
    what lies between is not judged.
    """
    ledger = Ledger(history)
    for entry in history.entries:
        if entry.is_manual:
            ledger.is_resumed = True
        elif entry.beat_at is not None and not ledger.is_tried_again(entry):
            yield from ledger.follow(entry.beat_at, f"run {entry.number}")
            yield from ledger.pass_over(entry)
    if history.cursor is not None and (history.entries or history.is_unrun):
        yield from ledger.follow(history.cursor, "the next beat")


class Ledger:
    """The beats of one job that have a run or a row of missed beats so far."""

    def __init__(self, history: BeatHistory) -> None:
        self._job_id = history.job_id
        self._timetable = endless(history.timetable)
        self._planned_at = history.planned_at
        # What came before the oldest run that is kept cannot be asked for.
        first = history.run_number + 1
        oldest = history.entries[0].number if history.entries else None
        self._is_whole = history.is_unrun or oldest == first
        self.last_at: datetime | None = None
        self.tried_at: datetime | None = None
        self.is_resumed = False

    def is_tried_again(self, entry: BeatRecord) -> bool:
        """Whether it is one more run of the beat that was tried last."""
        if entry.until_at is not None:
            return False
        is_same = entry.beat_at == self.tried_at
        self.tried_at = entry.beat_at
        return is_same

    def follow(self, beat_at: datetime, what: str) -> Iterator[str]:
        """`what` is for this beat, which must be the next one."""
        expected_at = self._expected()
        if expected_at is not None and beat_at > expected_at and not self.is_resumed:
            yield self._describe(f"{what} is for {beat_at}, and the beat of {expected_at} is lost")
        elif self.last_at is not None and beat_at <= self.last_at:
            yield self._describe(f"{what} is for {beat_at}, which has been accounted for")
        elif self._timetable.next_after(beat_at - RESOLUTION) != beat_at:
            yield self._describe(f"{what} is for {beat_at}, which is no beat")
        self.last_at, self.is_resumed = beat_at, False

    def pass_over(self, entry: BeatRecord) -> Iterator[str]:
        """A row of missed beats covers all of them, the first and the last included."""
        first_at, until_at = entry.beat_at, entry.until_at
        if first_at is None or until_at is None:
            return
        if until_at < first_at or self._timetable.next_after(until_at - RESOLUTION) != until_at:
            yield self._describe(f"run {entry.number} misses beats until {until_at}, which is none")
        count = self._timetable.count_between(first_at - RESOLUTION, until_at)
        if count not in (None, entry.count):
            yield self._describe(f"run {entry.number} misses {count} beats and says {entry.count}")
        self.last_at = max(first_at, until_at)

    def _expected(self) -> datetime | None:
        """The newest beat that may come next without a loss; None where that is not known."""
        if self.last_at is not None:
            return self._timetable.next_after(self.last_at)
        return self._timetable.next_after(self._planned_at) if self._is_whole else None

    def _describe(self, what: str) -> str:
        return f"job {self._job_id}: {what}"


def endless(timetable: Timetable) -> Timetable:
    """The same beats without `max_runs`: missed beats do not count as runs."""
    return replace(timetable, bounds=replace(timetable.bounds, max_runs=None))
