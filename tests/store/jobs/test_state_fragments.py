"""What statements decide about a job's state is what `core` decides, for every row there can be."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from evenbeat import store
from evenbeat.core.jobs import actions
from evenbeat.core.jobs.lifecycle import Action, Event, find_target_states
from evenbeat.core.jobs.model import Cause, Claimed, Definition, OpenRun, Policy, Pulse, State
from evenbeat.core.runs.outcome import Cancelled, Done, Failed, Outcome, Snoozed
from evenbeat.core.runs.settle import Verdict, settle
from evenbeat.core.time.schedules import KINDS, Schedule, parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.codes import CAUSES, CODE_OF_STATE, STATES
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.database.statements import (
    build_statement,
    fill_fragments,
    read_sections,
    read_sql_file,
    split_sections,
)
from evenbeat.store.jobs import jobs
from evenbeat.store.runs import completions
from evenbeat.store.runs.completions import SettledRun
from tests.conftest import START
from tests.store.given import open_job_store

BEFORE, AFTER = START - timedelta(minutes=90), START + timedelta(minutes=30)
CODE_OF_CAUSE = {word: code for code, word in CAUSES.items()}
AT_REST = [state for state in State if state not in (State.RUNNING, State.BLOCKED)]
OVER = (State.COMPLETED, State.CANCELLED)
WISHES = (None, State.PAUSED, State.DISABLED, State.CANCELLED)
RECURRING = Timetable(parse_schedule("every 1h phase=30m"))
ONE_OFF = Timetable(parse_schedule("once 2030-01-01T10:30:00Z"))

FOLDER = Path(store.__file__).parent
FILES = sorted(
    str(path.relative_to(FOLDER).with_suffix(""))
    for path in FOLDER.rglob("*.sql")
    if "schema" not in path.parts
)
FRAGMENTS = {file: split_sections(read_sql_file(file))[1] for file in FILES}
# Where each fact is written: every file that has a fragment of this name.
FACTS = (
    *("current_state", "may_still_run", "is_recurring", "follows_schedule"),
    *("is_counted", "is_undecided", "is_due"),
)


@dataclass(frozen=True)
class Row:
    """A job and its pulse, as far as facts about states depend on them."""

    resting: State
    timetable: Timetable = RECURRING
    is_deleted: bool = False
    next_beat_at: datetime | None = None
    retry_at: datetime | None = None
    manual_at: datetime | None = None
    is_parked: bool = False
    cause: Cause | None = None
    wanted: State | None = None
    is_tucked: bool = False

    @property
    def is_possible(self) -> bool:
        """The engine and people's actions write no other rows."""
        has_ended = self.resting in OVER
        has_time = bool(self.next_beat_at or self.retry_at or self.manual_at)
        is_away = self.is_parked or self.cause is not None
        return not (has_ended and (has_time or is_away))

    @property
    def pulse(self) -> Pulse:
        state = State.BLOCKED if self.is_parked else self.resting
        return Pulse(
            State.RUNNING if self.cause else state,
            next_beat_at=self.next_beat_at,
            retry_at=self.retry_at,
            manual_at=self.manual_at,
            resting=self.resting,
            wanted=self.wanted,
            cause=self.cause,
        )

    @property
    def due_at(self) -> datetime | None:
        """When a node may claim the job: core's table says from which states."""
        state = self.pulse.state
        if not find_target_states(Event.CLAIM, state):
            return None
        is_suspended = state in actions.SUSPENDED_STATES
        by_schedule = None if is_suspended else self.retry_at or self.next_beat_at
        return min(filter(None, (by_schedule, self.manual_at)), default=None)

    @property
    def follows_schedule(self) -> bool:
        """Whether beats of the schedule are claimed: not of a job that only runs by hand."""
        is_claimable = bool(find_target_states(Event.CLAIM, self.resting))
        is_stopped = self.wanted is not None or self.resting in actions.SUSPENDED_STATES
        is_recurring = self.timetable.schedule.is_recurring
        return is_claimable and is_recurring and not is_stopped and not self.is_deleted

    @property
    def may_still_run(self) -> bool:
        """People may cancel, disable, enable or resume it, and it has not failed for good."""
        allowed = set(actions.find_allowed_actions(self.pulse))
        can_change = allowed & {Action.CANCEL, Action.DISABLE, Action.ENABLE, Action.RESUME}
        has_failed = self.resting is State.FAILED
        is_final = has_failed and not (self.pulse.has_next or self.manual_at)
        return bool(can_change) and not is_final


INSTANTS = (None, BEFORE, AFTER)
AT_REST_OR_PARKED = [
    Row(resting, timetable, is_deleted, *instants, is_parked=is_parked)
    for resting, timetable, is_deleted, instants, is_parked in product(
        AT_REST,
        (RECURRING, ONE_OFF),
        (False, True),
        list(product(INSTANTS, INSTANTS, INSTANTS)),
        (False, True),
    )
]
IN_PROGRESS = [
    Row(resting, timetable, False, *instants, False, cause, wanted, is_tucked)
    for resting, timetable, instants, cause, wanted, is_tucked in product(
        AT_REST,
        (RECURRING, ONE_OFF),
        list(product((None, BEFORE), (None, AFTER), (None, BEFORE))),
        (Cause.SCHEDULE, Cause.MANUAL, Cause.RETRY),
        WISHES,
        (False, True),
    )
]
ROWS = [row for row in (*AT_REST_OR_PARKED, *IN_PROGRESS) if row.is_possible]

EXPECTED: dict[str, Callable[[Row], object]] = {
    "current_state": lambda row: row.pulse.state,
    "may_still_run": lambda row: row.may_still_run,
    "is_recurring": lambda row: row.timetable.schedule.is_recurring,
    "follows_schedule": lambda row: row.follows_schedule,
    "is_counted": lambda row: row.follows_schedule and row.next_beat_at is not None,
    "is_undecided": lambda row: (
        row.follows_schedule
        and row.next_beat_at is None
        and (row.pulse.state is State.RUNNING or row.manual_at is not None)
    ),
    "is_due": lambda row: row.due_at is not None and row.due_at <= START,
}


def uid_of(number: int) -> UUID:
    return UUID(int=number)


def as_columns(row: Row, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "uid": str(uid_of(number)),
        "timetable": row.timetable.to_object(),
        "deleted_at": START.isoformat() if row.is_deleted else None,
        "state": CODE_OF_STATE[row.resting].decode(),
        "wanted": row.wanted and CODE_OF_STATE[row.wanted].decode(),
        "cause": row.cause and CODE_OF_CAUSE[row.cause].decode(),
        "token": row.cause and number,
        "is_parked": row.is_parked,
        "is_tucked": row.is_tucked,
        "next_beat_at": row.next_beat_at and row.next_beat_at.isoformat(),
        "retry_at": row.retry_at and row.retry_at.isoformat(),
        "manual_at": row.manual_at and row.manual_at.isoformat(),
    }


INSERT = """
    with given as (
        select * from jsonb_to_recordset($1::jsonb) as given (
            id bigint, uid uuid, timetable jsonb, deleted_at timestamptz, state "char",
            wanted "char", cause "char", token bigint, is_parked boolean, is_tucked boolean,
            next_beat_at timestamptz, retry_at timestamptz, manual_at timestamptz
        )
    ),
    written as (
        insert into evenbeat.job (
            id, uid, kind, payload, timetable, policy, labels, created_at, updated_at, deleted_at
        )
        overriding system value
        select id, uid, 'echo', '{}', timetable, '{}', '{}', now(), now(), deleted_at from given
    )
    insert into evenbeat.pulse (
        id, lane_id, state, state_at, wanted, cause, token, is_parked, is_tucked, next_beat_at,
        retry_at, manual_at, beat_at, run_id, node_id, started_at
    )
    select
        id, $2, state, now(), wanted, cause, token, is_parked, is_tucked, next_beat_at, retry_at,
        manual_at, $3, id + 1000000, $4, $5
    from given
"""


@asynccontextmanager
async def stored(database: Database, rows: list[Row]) -> AsyncIterator[Session]:
    """A session that sees these rows, numbered from 1; they are gone afterwards."""
    job_store = await open_job_store(database)
    columns = [as_columns(row, number) for number, row in enumerate(rows, 1)]
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            others = (job_store.lanes["echo"], BEFORE, job_store.node_id, START)
            await connection.execute(INSERT, columns, *others)
            yield Session(connection, database.clock)
        finally:
            await transaction.rollback()


def code_of(fragment: str) -> str:
    """A fragment without its comments."""
    return re.sub(r"^\s*--.*\n", "", fragment, flags=re.MULTILINE).strip()


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_has_the_same_text_in_every_file(fact: str) -> None:
    texts = {code_of(fragments[fact]) for fragments in FRAGMENTS.values() if fact in fragments}
    assert len(texts) == 1


@pytest.mark.parametrize("fact", FACTS)
async def test_a_fact_is_what_core_says(database: Database, fact: str) -> None:
    assert len(ROWS) > 3000
    file = next(file for file, fragments in FRAGMENTS.items() if fact in fragments)
    body = f"""
        select (:{fact}) as fact
        from evenbeat.job
        join evenbeat.pulse on pulse.id = job.id
        join evenbeat.pulse as q on q.id = job.id
        order by job.id
    """
    statement = build_statement(fact, fill_fragments(body, read_sections(file)[1]))
    async with stored(database, ROWS) as session:
        found = [row["fact"] for row in await session.fetch(statement)]
    if fact == "current_state":
        found = [STATES[code] for code in found]
    # SQL's null is no yes: a statement leaves such a row out.
    differ = [
        (row, said)
        for row, said in zip(ROWS, found, strict=True)
        if (False if said is None else said) != EXPECTED[fact](row)
    ]
    assert differ == []


async def test_a_job_is_read_as_core_would_have_it(database: Database) -> None:
    """Its state, when it is due, and therefore what people may do to it."""
    rows = [row for row in ROWS if not row.is_deleted]
    async with stored(database, rows) as session:
        uids = [uid_of(number) for number in range(1, len(rows) + 1)]
        found = await jobs.find_stored_jobs(session, uids)
    assert len(found) == len(rows)
    for row, read in zip(rows, found, strict=True):
        assert read.pulse.due_at == row.due_at, row
        assert actions.find_allowed_actions(read.pulse) == actions.find_allowed_actions(row.pulse)


@pytest.mark.parametrize("kind", KINDS)
async def test_statements_know_which_kinds_of_schedules_recur(
    database: Database, kind: str
) -> None:
    texts = {"every": "every 1h", "cron": "0 8 * * *", "daily": "daily 06:00", "now": "now"}
    texts |= {
        "weekly": "weekly sun 02:00",
        "hourly": "hourly :15",
        "once": "once 2030-01-01T10:00Z",
    }
    schedule: Schedule = parse_schedule(texts[kind])
    assert schedule.kind == kind
    file = next(file for file, fragments in FRAGMENTS.items() if "is_recurring" in fragments)
    body = "select :is_recurring as fact from evenbeat.job"
    statement = build_statement("is_recurring", fill_fragments(body, read_sections(file)[1]))
    async with stored(database, [Row(State.SCHEDULED, Timetable(schedule))]) as session:
        assert await session.fetch_value(statement) is schedule.is_recurring


@dataclass(frozen=True)
class Ending:
    """A run in progress, and how it ends."""

    row: Row
    outcome: Outcome

    def claimed(self, number: int) -> Claimed:
        assert self.row.cause is not None
        beat_at = None if self.row.cause is Cause.MANUAL else BEFORE
        run = OpenRun(number, 0, self.row.cause, beat_at, 1, START, token=number)
        policy = Policy(max_attempts=1)
        definition = Definition("echo", self.row.timetable, policy=policy)
        next_beat_at = self.row.next_beat_at
        return Claimed(number, uid_of(number), definition, run, next_beat_at, 1, runs_so_far=0)

    def state_after(self, verdict: Verdict) -> State:
        """What a person asked for meanwhile outranks the verdict, unless the job has ended."""
        row = self.row
        if row.wanted is State.CANCELLED:
            return State.CANCELLED
        next_beat_at = verdict.next_beat_at if verdict.moves_cursor else row.next_beat_at
        is_over = verdict.state in OVER or (verdict.state, row.wanted) == (
            State.FAILED,
            State.PAUSED,
        )
        if row.wanted is not None and is_over and next_beat_at is None:
            return verdict.state
        return row.pulse.heading or verdict.state


OUTCOMES = (
    Done(),
    Failed("out of order"),
    Cancelled("no need", is_requested=False),
    Snoozed(timedelta(minutes=5)),
)
ENDINGS = [
    Ending(Row(resting, timetable, next_beat_at=BEFORE, cause=cause, wanted=wanted), outcome)
    for resting, timetable, cause, wanted, outcome in product(
        [state for state in AT_REST if state not in OVER],
        (RECURRING, ONE_OFF),
        (Cause.SCHEDULE, Cause.MANUAL),
        WISHES,
        OUTCOMES,
    )
]


async def test_a_run_that_ends_leaves_the_job_where_core_and_people_want_it(
    database: Database,
) -> None:
    claimed = [ending.claimed(number) for number, ending in enumerate(ENDINGS, 1)]
    verdicts = [
        settle(each, ending.outcome, START) for each, ending in zip(claimed, ENDINGS, strict=True)
    ]
    batch = [SettledRun(*pair, None) for pair in zip(claimed, verdicts, strict=True)]
    async with stored(database, [ending.row for ending in ENDINGS]) as session:
        written = await completions.complete_runs(session, batch)
        assert len(written.run_ids) == len(ENDINGS)
        found = await jobs.find_stored_jobs(session, [each.uid for each in claimed])
    for ending, verdict, job in zip(ENDINGS, verdicts, found, strict=True):
        assert job.pulse.state is ending.state_after(verdict), (ending, verdict)
        reachable = {to for event in Event for to in find_target_states(event, State.RUNNING)}
        assert job.pulse.state in reachable
        if job.pulse.state is State.CANCELLED:
            assert not job.pulse.has_next
