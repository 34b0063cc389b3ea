"""What the SQL face decides about states is what `core` decides, for every pulse there can be."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.core.jobs import actions
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Cause, Claimed, Definition, OpenRun, Pulse, State
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.settle import settle
from evenbeat.core.time.schedules import KINDS, parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.handlers.sql_function import outcome_of
from evenbeat.store.database.codes import CAUSES, CODE_OF_STATE, STATES
from tests.core.time.schedule_strategies import STRATEGIES

NOW = datetime(2026, 3, 29, tzinfo=UTC)
BEFORE, AFTER = NOW - timedelta(minutes=90), NOW + timedelta(minutes=30)
AT_REST = [state for state in State if state not in (State.RUNNING, State.BLOCKED)]
OVER = (State.COMPLETED, State.CANCELLED)
CODE_OF_CAUSE = {word: code for code, word in CAUSES.items()}
TIMETABLE = Timetable(parse_schedule("*/30 * * * *"))

Ask = Callable[[str, Any], list[Any]]


@pytest.fixture(scope="module")
def ask(database_url: str) -> Iterator[Ask]:
    """Asks the database, on one connection for all examples."""
    loop = asyncio.new_event_loop()
    connection: Any = loop.run_until_complete(asyncpg.connect(database_url))
    yield lambda query, argument: loop.run_until_complete(connection.fetch(query, argument))
    loop.run_until_complete(connection.close())
    loop.close()


@dataclass(frozen=True)
class Row:
    """A row of evenbeat.pulse, as far as states depend on it."""

    resting: State
    wanted: State | None
    cause: Cause | None
    is_parked: bool
    next_beat_at: datetime | None
    retry_at: datetime | None
    manual_at: datetime | None

    @property
    def is_possible(self) -> bool:
        """The engine writes no other rows."""
        is_running = self.cause is not None
        if is_running and self.is_parked:
            return False
        if (is_running or self.is_parked) and self.resting in OVER:
            return False
        return is_running or self.wanted is None

    @property
    def pulse(self) -> Pulse:
        shown = self.resting
        if self.cause is not None:
            shown = State.RUNNING
        elif self.is_parked:
            shown = State.BLOCKED
        return Pulse(
            shown,
            next_beat_at=self.next_beat_at,
            retry_at=self.retry_at,
            manual_at=self.manual_at,
            resting=self.resting,
            wanted=self.wanted,
            cause=self.cause,
        )

    def to_json(self, number: int) -> dict[str, Any]:
        instants = {
            name: at and at.isoformat()
            for name, at in (
                ("next_beat_at", self.next_beat_at),
                ("retry_at", self.retry_at),
                ("manual_at", self.manual_at),
            )
        }
        return instants | {
            # Of no job: nothing waits for a plan under this id.
            "id": -number,
            "state": CODE_OF_STATE[self.resting].decode(),
            "wanted": self.wanted and CODE_OF_STATE[self.wanted].decode(),
            "cause": self.cause and CODE_OF_CAUSE[self.cause].decode(),
            "token": self.cause and 5,
            "is_parked": self.is_parked,
        }


ROWS = [
    row
    for row in map(
        Row,
        *zip(
            *product(
                AT_REST,
                (None, State.PAUSED, State.DISABLED, State.CANCELLED),
                (None, *Cause),
                (False, True),
                (None, BEFORE, NOW, AFTER),
                (None, BEFORE, AFTER),
                (None, BEFORE, AFTER),
            ),
            strict=True,
        ),
    )
    if row.is_possible
]
ALL = """
    select
        evenbeat.shown_state(p) as shown_state, evenbeat.has_next(p) as has_next,
        evenbeat.is_aside(p) as is_aside,
        evenbeat.is_owed(p, '2026-03-29T00:00:00Z') as is_owed,
        evenbeat.is_beat_in_hand(p) as is_beat_in_hand, evenbeat.is_over(p) as is_over,
        evenbeat.is_enabled(p) as is_enabled, evenbeat.can_be_switched(p) as can_be_switched,
        evenbeat.is_live(p.state, p.retry_at, p.next_beat_at, p.manual_at) as is_live,
        evenbeat.state_after_success(p) as state_after_success
    from jsonb_populate_recordset(null::evenbeat.pulse, $1::jsonb) as p
    order by p.id desc
"""


@pytest.fixture(scope="module")
def told(ask: Ask) -> list[tuple[Row, Any]]:
    """Every row that there can be, and what SQL says of it."""
    given = json.dumps([row.to_json(number) for number, row in enumerate(ROWS)])
    found = list(zip(ROWS, ask(ALL, given), strict=True))
    assert len(found) > 1000
    return found


DECISIONS: dict[str, Callable[[Pulse], bool]] = {
    "has_next": lambda pulse: pulse.has_next,
    "is_aside": lambda pulse: pulse.resting in actions.SUSPENDED_STATES,
    "is_owed": lambda pulse: actions.is_owed(pulse, NOW),
    "is_beat_in_hand": actions.is_beat_in_hand,
    "is_over": actions.is_finished,
    "can_be_switched": lambda pulse: bool(
        {Action.ENABLE, Action.DISABLE} & set(actions.find_allowed_actions(pulse))
    ),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_sql_decides_as_core_does(told: list[tuple[Row, Any]], name: str) -> None:
    differ = [row for row, said in told if said[name] is not DECISIONS[name](row.pulse)]
    assert differ == []


def test_sql_shows_the_state_that_people_see(told: list[tuple[Row, Any]]) -> None:
    assert [row for row, said in told if STATES[said["shown_state"]] is not row.pulse.state] == []


def test_a_job_is_shown_as_enabled_unless_it_can_be_enabled_or_is_cancelled(
    told: list[tuple[Row, Any]],
) -> None:
    for row, said in told:
        is_cancelled = State.CANCELLED in (row.resting, row.wanted)
        can_be_enabled = Action.ENABLE in actions.find_allowed_actions(row.pulse)
        assert said["is_enabled"] is not (is_cancelled or can_be_enabled), row


def test_a_job_is_live_while_anything_of_it_may_still_run(told: list[tuple[Row, Any]]) -> None:
    """What people may cancel, disable or take up again is live, but for a failure that is final."""
    for row, said in told:
        allowed = set(actions.find_allowed_actions(row.pulse))
        may_run = allowed & {Action.CANCEL, Action.DISABLE, Action.ENABLE, Action.RESUME}
        is_final = row.resting is State.FAILED and not (row.pulse.has_next or row.manual_at)
        assert said["is_live"] is (bool(may_run) and not is_final), row


def test_a_run_by_hand_that_succeeds_leaves_the_state_that_a_node_s_would(
    told: list[tuple[Row, Any]],
) -> None:
    """Of a job with a next beat, as jobs on cron have. Those put aside stay there."""
    definition = Definition("sql_function", TIMETABLE)
    for row, said in told:
        if row.next_beat_at is None or row.cause is not None or row.resting in OVER:
            continue
        run = OpenRun(1, 1, Cause.MANUAL, None, 1, NOW, token=1)
        claimed = Claimed(1, UUID(int=1), definition, run, row.next_beat_at, 1, runs_so_far=0)
        state = settle(claimed, Done(), NOW).state
        is_aside, is_one_off = row.resting in actions.SUSPENDED_STATES, row.resting is State.PENDING
        expected = row.resting if is_aside or is_one_off else state
        assert said["state_after_success"] == CODE_OF_STATE[expected], row


@settings(max_examples=50)
@given(schedule=st.one_of(*STRATEGIES.values()))
def test_sql_knows_which_schedules_recur(ask: Ask, schedule: Any) -> None:
    assert KINDS.keys() == STRATEGIES.keys()
    stored = json.dumps({"schedule": schedule.to_object()})
    [row] = ask("select evenbeat.is_recurring($1::jsonb) as is_recurring", stored)
    assert row["is_recurring"] is schedule.is_recurring


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        {"success": True},
        {"success": False},
        {"success": None},
        {"success": "false"},
        {"success": 0},
        {"a": {"success": False}},
        [{"success": False}],
        "false",
        False,
    ],
)
def test_sql_and_python_call_the_same_results_a_success(ask: Ask, result: Any) -> None:
    [row] = ask("select evenbeat.is_success(null, $1::jsonb) as is_success", json.dumps(result))
    assert row["is_success"] is isinstance(outcome_of(orjson.dumps(result), None), Done)
