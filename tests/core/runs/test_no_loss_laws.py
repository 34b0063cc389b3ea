"""No beat is lost: each is the beat of a settled run, or one of exactly one row of missed ones."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.jobs.backoff import Fixed
from evenbeat.core.jobs.model import CatchUp, Cause, Claimed, Definition, OpenRun, Policy
from evenbeat.core.runs.outcome import (
    Cancelled,
    Done,
    Failed,
    HandedBack,
    Lost,
    Outcome,
    Skipped,
    Snoozed,
)
from evenbeat.core.runs.settle import settle, skip_if_too_late
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable

START = datetime(2026, 3, 28, 20, tzinfo=UTC)  # a few hours before Berlin's clocks go forward
ZERO = timedelta(0)

timetables = st.sampled_from(
    [
        Timetable(parse_schedule("every 10m phase=3m")),
        Timetable(parse_schedule("every 37m phase=0s")),
        Timetable(parse_schedule("*/20 * * * * Europe/Berlin")),
        Timetable(parse_schedule("30 * * * * America/New_York")),
        Timetable(parse_schedule("daily 02:30 Europe/Berlin")),
    ]
)
policies = st.builds(
    Policy,
    max_attempts=st.integers(1, 3),
    backoff=st.just(Fixed(timedelta(minutes=4))),
    catch_up=st.sampled_from(CatchUp),
    catch_up_cap=st.integers(1, 4),
    start_deadline=st.none() | st.just(timedelta(minutes=15)),
)
outcomes = st.sampled_from(
    [Done(), Failed("boom"), Lost(), Snoozed(timedelta(minutes=7)), HandedBack(), Cancelled()]
)
minutes = st.integers(0, 300).map(lambda count: timedelta(minutes=count))
steps = st.lists(st.tuples(minutes, outcomes, minutes, st.booleans()), min_size=1, max_size=25)


@dataclass
class Fleet:
    """A node and a store in miniature: one job, claimed and settled as the statements do it."""

    timetable: Timetable
    policy: Policy
    now: datetime = START
    cursor: datetime | None = START
    retry_at: datetime | None = None
    beat_at: datetime | None = None
    attempt: int = 0
    streaks: tuple[int, int] = (0, 0)
    runs: int = 0
    number: int = 0
    settled: list[datetime] = field(default_factory=list[datetime])
    missed: list[datetime] = field(default_factory=list[datetime])

    def __post_init__(self) -> None:
        self.cursor = self.timetable.next_after(START)

    def turn(self, downtime: timedelta, outcome: Outcome, lasts: timedelta) -> None:
        due_at = self.retry_at or self.cursor
        assert due_at is not None
        self.now = max(self.now, due_at) + downtime
        claimed = self.claim()
        outcome = skip_if_too_late(claimed, self.now) or outcome
        self.now += ZERO if isinstance(outcome, Skipped) else lasts
        self.complete(claimed, outcome)

    def claim(self) -> Claimed:
        is_retry = self.retry_at is not None
        self.beat_at = self.beat_at if is_retry else self.cursor
        self.attempt = self.attempt + 1 if is_retry else 1
        self.number += 1
        cause = Cause.RETRY if is_retry else Cause.SCHEDULE
        run = OpenRun(1, self.number, cause, self.beat_at, self.attempt, self.now, token=1)
        definition = Definition("echo", self.timetable, policy=self.policy)
        return Claimed(1, UUID(int=1), definition, run, self.cursor, 1, self.runs, *self.streaks)

    def complete(self, claimed: Claimed, outcome: Outcome) -> None:
        verdict = settle(claimed, outcome, self.now)
        self.retry_at, self.attempt = verdict.retry_at, verdict.attempts_used
        self.streaks = (verdict.failure_streak, verdict.lost_streak)
        if verdict.moves_cursor:
            assert self.beat_at is not None
            self.settled.append(self.beat_at)
            self.cursor = verdict.next_beat_at
            self.runs += 1
        if verdict.missed is not None:
            before = verdict.missed.first_at - timedelta(microseconds=1)
            beats = self.timetable.beats_between(before, verdict.missed.until_at, 10_000)
            assert (beats.total, beats.is_exact) == (verdict.missed.count, True)
            assert beats.instants[-1] == verdict.missed.until_at
            self.missed += beats.instants

    def run_by_hand(self) -> None:
        run = OpenRun(1, self.number, Cause.MANUAL, None, 1, self.now, token=1)
        definition = Definition("echo", self.timetable, policy=self.policy)
        claimed = Claimed(1, UUID(int=1), definition, run, self.cursor, 1, self.runs)
        verdict = settle(claimed, Done(), self.now)
        assert (verdict.moves_cursor, verdict.missed) == (False, None)


@given(timetables, policies, steps)
def test_every_beat_is_settled_or_missed_exactly_once(
    timetable: Timetable,
    policy: Policy,
    turns: list[tuple[timedelta, Outcome, timedelta, bool]],
):
    fleet = Fleet(timetable, policy)
    for downtime, outcome, lasts, by_hand in turns:
        fleet.turn(downtime, outcome, lasts)
        if by_hand:
            fleet.run_by_hand()
    assert fleet.cursor is not None
    until = fleet.cursor - timedelta(microseconds=1)
    expected = timetable.beats_between(START, until, 10_000)
    assert expected.is_exact
    assert sorted(fleet.settled + fleet.missed) == list(expected.instants)


@given(timetables, policies, st.lists(minutes, max_size=20))
def test_a_job_that_always_kills_its_node_does_not_run_for_ever(
    timetable: Timetable, policy: Policy, downtimes: list[timedelta]
):
    fleet = Fleet(timetable, replace(policy, max_attempts=1000))
    for downtime in downtimes:
        fleet.turn(downtime, Lost(), ZERO)
        assert fleet.attempt <= 3


@given(timetables, minutes.map(lambda downtime: 50 * downtime))
def test_the_rhythm_is_kept_over_any_downtime(timetable: Timetable, downtime: timedelta):
    fleet = Fleet(timetable, Policy())
    fleet.turn(downtime, Done(), timedelta(seconds=1))
    assert fleet.cursor == timetable.next_after(fleet.now)
