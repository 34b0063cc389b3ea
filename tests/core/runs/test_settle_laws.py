"""Laws of settling, over any job, any run and any end of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.jobs.backoff import Exponential, Fixed, Linear
from evenbeat.core.jobs.lifecycle import Action, Event, find_target_states
from evenbeat.core.jobs.model import (
    AfterFailure,
    CatchUp,
    Cause,
    Claimed,
    Definition,
    ErrorClass,
    OpenRun,
    Policy,
    RunState,
    State,
)
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
from evenbeat.core.runs.settle import MOST_LOSSES, Verdict, settle
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.timetable import Timetable, TimetableBounds

NOW = datetime(2026, 3, 29, tzinfo=UTC)  # the night in which Berlin's clocks go forward

lengths = st.timedeltas(timedelta(0), timedelta(days=3))
intervals = st.integers(1, 100_000).map(lambda seconds: timedelta(seconds=seconds))
schedules = st.one_of(
    st.builds(Every, intervals, phase=lengths),
    st.builds(Once, st.just(NOW)),
    st.sampled_from(
        [
            parse_schedule("*/15 * * * * Europe/Berlin"),
            parse_schedule("daily 02:30 Europe/Berlin"),
            parse_schedule("hourly :15"),
            parse_schedule("weekly sun 02:00"),
        ]
    ),
)
bounds = st.builds(
    TimetableBounds,
    ends_at=st.none() | lengths.map(lambda length: NOW + length + timedelta(seconds=1)),
    max_runs=st.none() | st.integers(1, 5),
)
policies = st.builds(
    Policy,
    max_attempts=st.integers(1, 6),
    backoff=st.sampled_from([Exponential(), Exponential(jitter=1.0), Linear(), Fixed()]),
    catch_up=st.sampled_from(CatchUp),
    catch_up_cap=st.integers(1, 20),
    start_deadline=st.none() | lengths,
    after_failure=st.sampled_from(AfterFailure),
    pause_after_failures=st.none() | st.integers(1, 3),
)
outcomes = st.one_of(
    st.builds(Done),
    st.builds(
        Failed,
        st.just("boom"),
        st.sampled_from([ErrorClass.HANDLER_ERROR, ErrorClass.TIMEOUT]),
        is_final=st.booleans(),
    ),
    st.builds(Snoozed, st.timedeltas(timedelta(days=-1), timedelta(days=900_000))),
    st.builds(Cancelled, is_requested=st.booleans()),
    st.just(HandedBack()),
    st.just(Lost()),
    st.just(Skipped("late")),
)


@st.composite
def ends(draw: st.DrawFn) -> tuple[Claimed, Outcome, datetime]:
    """A run of some beat, how it ended, and when."""
    timetable = Timetable(draw(schedules), draw(bounds))
    beat_at = timetable.next_after(NOW - timedelta(microseconds=1)) or NOW
    policy, outcome = draw(policies), draw(outcomes)
    causes = [Cause.SCHEDULE, Cause.CATCHUP, Cause.RETRY]
    is_skipped = isinstance(outcome, Skipped)
    cause = draw(st.sampled_from(causes if is_skipped else [*causes, Cause.MANUAL]))
    attempt = draw(st.integers(1, policy.max_attempts))
    started_at = beat_at + draw(lengths)
    beat = None if cause is Cause.MANUAL else beat_at
    run = OpenRun(1, draw(st.integers(1, 9)), cause, beat, attempt, started_at, token=1)
    cursor = draw(st.none() | st.just(beat_at)) if cause is Cause.MANUAL else beat_at
    definition = Definition("echo", timetable, policy=policy)
    claimed = Claimed(1, UUID(int=1), definition, run, cursor, 1, runs_so_far=0)
    streaks = {
        "failure_streak": draw(st.integers(0, 4)),
        "lost_streak": draw(st.integers(0, MOST_LOSSES - 1)),
        "runs_so_far": draw(st.integers(0, (timetable.bounds.max_runs or 5) - 1)),
    }
    return replace(claimed, **streaks), outcome, started_at + draw(lengths)


def is_exhausted(claimed: Claimed, outcome: Outcome) -> bool:
    """Said anew, so that the law does not repeat the code."""
    no_attempt_left = claimed.run.attempt == claimed.definition.policy.max_attempts
    match outcome:
        case Failed():
            return outcome.is_final or no_attempt_left
        case Lost():
            return no_attempt_left or claimed.lost_streak + 1 == MOST_LOSSES
        case _:
            return False


@given(ends())
def test_the_next_beat_is_later_than_the_settled_one(end: tuple[Claimed, Outcome, datetime]):
    claimed, _, _ = end
    verdict = settle(*end)
    if verdict.next_beat_at is not None and claimed.run.beat_at is not None:
        assert verdict.next_beat_at > claimed.run.beat_at


@given(ends())
def test_the_next_beat_is_one_of_the_timetable(end: tuple[Claimed, Outcome, datetime]):
    verdict = settle(*end)
    if verdict.next_beat_at is not None:
        just_before = verdict.next_beat_at - timedelta(microseconds=1)
        timetable = end[0].definition.timetable
        assert timetable.next_after(just_before) == verdict.next_beat_at


@given(ends())
def test_only_catch_up_all_and_a_skip_leave_a_beat_behind_now(
    end: tuple[Claimed, Outcome, datetime],
):
    claimed, outcome, now = end
    verdict = settle(*end)
    if verdict.next_beat_at is not None and verdict.next_beat_at <= now:
        is_all = claimed.definition.policy.catch_up is CatchUp.ALL
        assert is_all or isinstance(outcome, Skipped)


@given(ends())
def test_what_a_person_cancelled_never_comes_back(end: tuple[Claimed, Outcome, datetime]):
    claimed, _, now = end
    verdict = settle(claimed, Cancelled(is_requested=True), now)
    assert (verdict.run_state, verdict.state) == (RunState.CANCELLED, State.CANCELLED)
    assert (verdict.moves_cursor, verdict.next_beat_at, verdict.retry_at) == (True, None, None)


@given(ends())
def test_the_next_attempt_is_never_more_than_the_most(end: tuple[Claimed, Outcome, datetime]):
    verdict = settle(*end)
    most = end[0].definition.policy.max_attempts
    assert 0 <= verdict.attempts_used <= most
    if verdict.retry_at is not None:
        assert verdict.attempts_used + 1 <= most


@given(ends())
def test_a_retry_waits_or_the_beat_is_settled(end: tuple[Claimed, Outcome, datetime]):
    claimed, _, now = end
    verdict = settle(*end)
    if claimed.run.cause is not Cause.MANUAL:
        assert verdict.is_settled == verdict.moves_cursor
    if not verdict.is_settled:
        assert verdict.retry_at is not None
        assert verdict.retry_at >= now
        assert (verdict.state, verdict.missed) == (State.SCHEDULED, None)
        assert not verdict.moves_cursor


@given(ends())
def test_a_dead_letter_is_written_exactly_when_attempts_run_out(
    end: tuple[Claimed, Outcome, datetime],
):
    claimed, outcome, _ = end
    verdict = settle(*end)
    assert verdict.is_dead == is_exhausted(claimed, outcome)
    assert not verdict.is_dead or verdict.state in (State.FAILED, State.PAUSED)


@given(ends())
def test_a_manual_run_moves_no_cursor_and_misses_nothing(end: tuple[Claimed, Outcome, datetime]):
    claimed, outcome, _ = end
    verdict = settle(*end)
    if claimed.run.cause is Cause.MANUAL and claimed.next_beat_at is not None:
        is_requested = isinstance(outcome, Cancelled) and outcome.is_requested
        assert verdict.moves_cursor == is_requested
        assert verdict.missed is None


@given(ends())
def test_a_job_at_rest_with_nothing_to_come_is_over(end: tuple[Claimed, Outcome, datetime]):
    claimed, _, _ = end
    verdict = settle(*end)
    cursor = verdict.next_beat_at if verdict.moves_cursor else claimed.next_beat_at
    if cursor is None and verdict.retry_at is None:
        assert verdict.state in (State.COMPLETED, State.FAILED, State.CANCELLED)
    else:
        assert verdict.state not in (State.COMPLETED, State.CANCELLED)


def event_of(outcome: Outcome, verdict: Verdict) -> Event | Action:
    match outcome:
        case Cancelled():
            return Action.CANCEL if outcome.is_requested else Event.GIVE_UP
        case Failed():
            return Event.EXHAUST if verdict.is_dead else Event.FAIL
        case _:
            return {
                Done: Event.COMPLETE,
                Snoozed: Event.SNOOZE,
                HandedBack: Event.HAND_BACK,
                Lost: Event.REAP,
                Skipped: Event.SKIP,
            }[type(outcome)]


@given(ends())
def test_every_verdict_is_a_way_of_the_table(end: tuple[Claimed, Outcome, datetime]):
    verdict = settle(*end)
    assert verdict.state in find_target_states(event_of(end[1], verdict), State.RUNNING)


@given(ends())
def test_missed_beats_lie_between_the_settled_beat_and_the_next(
    end: tuple[Claimed, Outcome, datetime],
):
    claimed, _, now = end
    verdict = settle(*end)
    if (missed := verdict.missed) is not None:
        assert claimed.run.beat_at is not None
        assert claimed.run.beat_at < missed.first_at <= missed.until_at <= now
        assert verdict.next_beat_at is None or missed.until_at < verdict.next_beat_at
        assert missed.count >= 1
        assert missed.reason
