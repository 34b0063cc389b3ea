"""What follows from the end of a run."""

from datetime import datetime, timedelta

import pytest

from evenbeat.core.jobs.backoff import Exponential, Fixed, Linear, RetryRule
from evenbeat.core.jobs.model import AfterFailure, Cause, ErrorClass, RunState, State
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
from evenbeat.core.runs.settle import LONGEST_SNOOZE, settle
from evenbeat.core.time.timetable import Timetable
from tests.core.given import HOUR, HOURLY, MINUTE, ONCE, SECOND, at, claimed, every

NOW = at(0, 10)
BOOM = Failed("boom")
RETRY_AT = NOW + MINUTE

# outcome, schedule, cause: run, job, cursor ("-" is not moved, "" is none), retry, dead
SCHEDULED = (Cause.SCHEDULE, Cause.CATCHUP, Cause.RETRY)
MANUAL = (Cause.MANUAL,)
BY_HAND: list[tuple[Outcome, Timetable, tuple[Cause, ...], tuple[object, ...]]] = [
    (Done(), ONCE, SCHEDULED, ("completed", "completed", "", None, False)),
    (Done(), ONCE, MANUAL, ("completed", "pending", "-", None, False)),
    (Done(), HOURLY, SCHEDULED, ("completed", "scheduled", at(1), None, False)),
    (Done(), HOURLY, MANUAL, ("completed", "scheduled", "-", None, False)),
    (BOOM, ONCE, SCHEDULED, ("failed", "scheduled", "-", RETRY_AT, False)),
    (BOOM, ONCE, MANUAL, ("failed", "scheduled", "-", RETRY_AT, False)),
    (BOOM, HOURLY, SCHEDULED, ("failed", "scheduled", "-", RETRY_AT, False)),
    (BOOM, HOURLY, MANUAL, ("failed", "scheduled", "-", RETRY_AT, False)),
    (Failed("x", is_final=True), ONCE, SCHEDULED, ("failed", "failed", "", None, True)),
    (Failed("x", is_final=True), ONCE, MANUAL, ("failed", "failed", "-", None, True)),
    (Failed("x", is_final=True), HOURLY, SCHEDULED, ("failed", "failed", at(1), None, True)),
    (Failed("x", is_final=True), HOURLY, MANUAL, ("failed", "failed", "-", None, True)),
    (Lost(), ONCE, SCHEDULED, ("failed", "scheduled", "-", NOW, False)),
    (Lost(), ONCE, MANUAL, ("failed", "scheduled", "-", NOW, False)),
    (Lost(), HOURLY, SCHEDULED, ("failed", "scheduled", "-", NOW, False)),
    (Lost(), HOURLY, MANUAL, ("failed", "scheduled", "-", NOW, False)),
    (Snoozed(HOUR), ONCE, SCHEDULED, ("cancelled", "scheduled", "-", NOW + HOUR, False)),
    (Snoozed(HOUR), ONCE, MANUAL, ("cancelled", "scheduled", "-", NOW + HOUR, False)),
    (Snoozed(HOUR), HOURLY, SCHEDULED, ("cancelled", "scheduled", "-", NOW + HOUR, False)),
    (Snoozed(HOUR), HOURLY, MANUAL, ("cancelled", "scheduled", "-", NOW + HOUR, False)),
    (HandedBack(), ONCE, SCHEDULED, ("cancelled", "scheduled", "-", NOW, False)),
    (HandedBack(), ONCE, MANUAL, ("cancelled", "scheduled", "-", NOW, False)),
    (HandedBack(), HOURLY, SCHEDULED, ("cancelled", "scheduled", "-", NOW, False)),
    (HandedBack(), HOURLY, MANUAL, ("cancelled", "scheduled", "-", NOW, False)),
    (Cancelled(), ONCE, SCHEDULED, ("cancelled", "cancelled", "", None, False)),
    (Cancelled(), ONCE, MANUAL, ("cancelled", "pending", "-", None, False)),
    (Cancelled(), HOURLY, SCHEDULED, ("cancelled", "scheduled", at(1), None, False)),
    (Cancelled(), HOURLY, MANUAL, ("cancelled", "scheduled", "-", None, False)),
    (Cancelled(is_requested=True), ONCE, SCHEDULED, ("cancelled", "cancelled", "", None, False)),
    (Cancelled(is_requested=True), ONCE, MANUAL, ("cancelled", "cancelled", "", None, False)),
    (Cancelled(is_requested=True), HOURLY, SCHEDULED, ("cancelled", "cancelled", "", None, False)),
    (Cancelled(is_requested=True), HOURLY, MANUAL, ("cancelled", "cancelled", "", None, False)),
    (Skipped("late"), ONCE, SCHEDULED, ("skipped", "failed", "", None, False)),
    (Skipped("late"), HOURLY, SCHEDULED, ("skipped", "scheduled", at(1), None, False)),
]


@pytest.mark.parametrize(
    ("outcome", "timetable", "cause", "expected"),
    [(o, t, cause, expected) for o, t, causes, expected in BY_HAND for cause in causes],
)
def test_every_outcome_of_every_sort_of_run(
    outcome: Outcome, timetable: Timetable, cause: Cause, expected: tuple[object, ...]
):
    verdict = settle(claimed(timetable, cause), outcome, NOW)
    cursor = (verdict.next_beat_at or "") if verdict.moves_cursor else "-"
    is_dead = verdict.is_dead
    assert (verdict.run_state, verdict.state, cursor, verdict.retry_at, is_dead) == expected
    assert verdict.missed is None


def test_what_a_handler_reports_is_what_is_written():
    verdict = settle(claimed(), Done({"pages": 3}, items_crawled=25, items_indexed=24), NOW)
    assert (verdict.result, verdict.items_crawled, verdict.items_indexed) == ({"pages": 3}, 25, 24)
    failed = settle(claimed(), Failed("boom", stack_trace="line 1"), NOW)
    assert (failed.error, failed.stack_trace) == ("boom", "line 1")
    assert failed.error_class is ErrorClass.HANDLER_ERROR


@pytest.mark.parametrize(
    ("outcome", "error_class", "error", "reason"),
    [
        (Failed("slow", ErrorClass.TIMEOUT), "timeout", "slow", None),
        (Lost("gone"), "lost", "gone", None),
        (HandedBack("stop"), "handed_back", None, "stop"),
        (Snoozed(HOUR, "busy"), "snoozed", None, "busy"),
        (Cancelled("enough"), "cancelled", None, "enough"),
        (Skipped("late"), None, None, "late"),
    ],
)
def test_every_end_says_why(
    outcome: Outcome, error_class: str | None, error: str | None, reason: str | None
):
    verdict = settle(claimed(), outcome, NOW)
    assert (verdict.error_class, verdict.error, verdict.reason) == (error_class, error, reason)


def test_success_clears_both_streaks():
    verdict = settle(claimed(facts={"failure_streak": 4, "lost_streak": 2}), Done(), NOW)
    assert (verdict.failure_streak, verdict.lost_streak) == (0, 0)


def test_the_wait_before_a_retry_grows_with_the_attempt():
    job = claimed(attempt=2, backoff=Linear(5 * SECOND))
    assert settle(job, BOOM, NOW).retry_at == NOW + 10 * SECOND


def test_the_last_attempt_is_a_dead_letter():
    verdict = settle(claimed(attempt=3), BOOM, NOW)
    assert verdict.is_dead
    assert verdict.is_settled
    assert verdict.attempts_used == 3


def test_a_timeout_is_tried_again_like_any_failure():
    verdict = settle(claimed(), Failed("1 h", ErrorClass.TIMEOUT), NOW)
    assert (verdict.retry_at, verdict.is_dead) == (RETRY_AT, False)


def test_a_rule_for_an_error_decides_how_often_it_is_tried():
    rules = (RetryRule("ValueError", max_attempts=1), RetryRule("timeout", max_attempts=9))
    once = settle(claimed(retry_rules=rules), Failed("bad", error_type="ValueError"), NOW)
    often = settle(claimed(attempt=8, retry_rules=rules), Failed("", ErrorClass.TIMEOUT), NOW)
    assert (once.is_dead, often.is_dead) == (True, False)


def test_a_rule_for_an_error_decides_how_long_it_waits():
    rules = (RetryRule("RateLimited", Fixed(HOUR)),)
    verdict = settle(claimed(retry_rules=rules), Failed("429", error_type="RateLimited"), NOW)
    assert verdict.retry_at == NOW + HOUR


def test_a_rule_may_say_that_a_loss_is_not_tried_again():
    rules = (RetryRule("lost", max_attempts=1),)
    assert settle(claimed(retry_rules=rules), Lost(), NOW).is_dead


def test_two_jobs_that_fail_together_do_not_come_back_together():
    jitter = Exponential(jitter=1.0)
    one = settle(claimed(backoff=jitter), BOOM, NOW)
    other = settle(claimed(backoff=jitter, facts={"id": 2}), BOOM, NOW)
    assert one.retry_at != other.retry_at


def test_three_losses_in_a_row_are_a_dead_letter_whatever_attempts_are_left():
    job = claimed(attempt=3, max_attempts=10, facts={"lost_streak": 2})
    verdict = settle(job, Lost(), NOW)
    assert (verdict.is_dead, verdict.error_class) == (True, "lost")
    assert verdict.lost_streak == 0, "the next beat has its own three losses"


def test_a_loss_counts_on_from_the_loss_before():
    verdict = settle(claimed(facts={"lost_streak": 1}), Lost(), NOW)
    assert (verdict.lost_streak, verdict.attempts_used, verdict.retry_at) == (2, 1, NOW)


def test_a_loss_at_the_last_attempt_is_a_dead_letter():
    assert settle(claimed(attempt=3), Lost(), NOW).is_dead
    assert settle(claimed(max_attempts=1), Lost(), NOW).is_dead


def test_a_run_that_reports_an_end_breaks_the_row_of_losses():
    assert settle(claimed(facts={"lost_streak": 2}), BOOM, NOW).lost_streak == 0


@pytest.mark.parametrize("outcome", [Snoozed(HOUR), HandedBack()])
def test_what_is_put_off_or_handed_back_uses_up_no_attempt(outcome: Outcome):
    verdict = settle(claimed(attempt=3), outcome, NOW)
    assert (verdict.attempts_used, verdict.is_dead) == (2, False)


@pytest.mark.parametrize(
    ("delay", "until"), [(timedelta(days=99_999), NOW + LONGEST_SNOOZE), (-HOUR, NOW)]
)
def test_a_snooze_without_sense_is_bounded(delay: timedelta, until: datetime):
    assert settle(claimed(), Snoozed(delay), NOW).retry_at == until


def test_a_recurring_job_that_failed_for_good_keeps_its_next_beat():
    verdict = settle(claimed(attempt=3), BOOM, NOW)
    assert (verdict.state, verdict.next_beat_at) == (State.FAILED, at(1))
    assert verdict.failure_streak == 1


def test_a_recurring_job_that_stops_on_failure_has_no_next_beat():
    job = claimed(attempt=3, after_failure=AfterFailure.STOP, pause_after_failures=1)
    verdict = settle(job, BOOM, NOW)
    assert (verdict.state, verdict.moves_cursor, verdict.next_beat_at) == ("failed", True, None)


@pytest.mark.parametrize(("streak", "state"), [(0, "failed"), (1, "paused"), (5, "paused")])
def test_a_job_is_paused_after_so_many_failed_beats_in_a_row(streak: int, state: str):
    job = claimed(attempt=3, pause_after_failures=2, facts={"failure_streak": streak})
    verdict = settle(job, BOOM, NOW)
    assert (verdict.state, verdict.next_beat_at) == (state, at(1))


def test_a_failed_attempt_that_is_tried_again_does_not_count_towards_the_pause():
    job = claimed(pause_after_failures=1, facts={"failure_streak": 3})
    verdict = settle(job, BOOM, NOW)
    assert (verdict.state, verdict.failure_streak) == ("scheduled", 3)


def test_a_manual_run_that_fails_for_good_neither_pauses_nor_adds_to_the_streak():
    job = claimed(cause=Cause.MANUAL, attempt=3, pause_after_failures=1)
    verdict = settle(job, BOOM, NOW)
    assert (verdict.state, verdict.failure_streak) == ("failed", 0)


@pytest.mark.parametrize("outcome", [Skipped("late"), Cancelled()])
def test_only_success_clears_a_failure(outcome: Outcome):
    verdict = settle(claimed(facts={"failure_streak": 1}), outcome, NOW)
    assert (verdict.state, verdict.failure_streak) == ("failed", 1)


@pytest.mark.parametrize("outcome", [Skipped("late"), Cancelled()])
def test_only_another_failure_pauses_a_job_that_was_resumed(outcome: Outcome):
    job = claimed(pause_after_failures=1, facts={"failure_streak": 1})
    assert settle(job, outcome, NOW).state == "failed"


def test_skipping_changes_no_streak():
    verdict = settle(claimed(facts={"failure_streak": 2, "lost_streak": 1}), Skipped("late"), NOW)
    assert (verdict.failure_streak, verdict.lost_streak) == (2, 1)


@pytest.mark.parametrize("outcome", [Done(), Skipped("late"), Cancelled()])
def test_a_recurring_job_whose_window_is_over_is_completed(outcome: Outcome):
    verdict = settle(claimed(every(HOUR, ends_at=at(0, 30))), outcome, NOW)
    expected = RunState.SKIPPED if isinstance(outcome, Skipped) else verdict.run_state
    assert (verdict.run_state, verdict.state) == (expected, "completed")
    assert (verdict.moves_cursor, verdict.next_beat_at) == (True, None)


def test_a_recurring_job_that_fails_at_its_last_beat_is_failed():
    assert settle(claimed(every(HOUR, ends_at=at(0, 30)), attempt=3), BOOM, NOW).state == "failed"


def test_a_recurring_job_is_completed_after_so_many_runs():
    timetable = every(HOUR, max_runs=3)
    assert settle(claimed(timetable, facts={"runs_so_far": 1}), Done(), NOW).state == "scheduled"
    assert settle(claimed(timetable, facts={"runs_so_far": 2}), Done(), NOW).state == "completed"


def test_a_skipped_beat_is_not_one_of_so_many_runs():
    job = claimed(every(HOUR, max_runs=3), facts={"runs_so_far": 2})
    assert settle(job, Skipped("late"), NOW).next_beat_at == at(1)


@pytest.mark.parametrize("outcome", [Done(), Failed("x", is_final=True), Cancelled()])
def test_a_retry_by_hand_takes_the_schedule_of_a_stopped_or_cancelled_job_up_again(
    outcome: Outcome,
):
    job = claimed(cause=Cause.MANUAL, facts={"next_beat_at": None})
    verdict = settle(job, outcome, at(2, 30))
    assert (verdict.moves_cursor, verdict.next_beat_at, verdict.missed) == (True, at(3), None)


def test_a_retry_by_hand_is_not_one_of_so_many_runs():
    facts = {"next_beat_at": None, "runs_so_far": 2}
    job = claimed(every(HOUR, max_runs=3), Cause.MANUAL, facts=facts)
    assert settle(job, Done(), NOW).next_beat_at == at(1)


def test_a_retry_by_hand_of_a_job_at_its_end_leaves_it_completed():
    facts = {"next_beat_at": None, "runs_so_far": 3}
    job = claimed(every(HOUR, max_runs=3), Cause.MANUAL, facts=facts)
    assert settle(job, Done(), NOW).state == "completed"


def test_a_retry_by_hand_that_fails_leaves_a_stopped_job_stopped():
    job = claimed(
        cause=Cause.MANUAL,
        attempt=3,
        after_failure=AfterFailure.STOP,
        facts={"next_beat_at": None},
    )
    verdict = settle(job, BOOM, NOW)
    assert (verdict.state, verdict.next_beat_at) == ("failed", None)


def test_a_one_off_job_that_is_retried_by_hand_ends_as_that_run_ends():
    job = claimed(ONCE, Cause.MANUAL, facts={"next_beat_at": None})
    assert settle(job, Done(), NOW).state == "completed"
    assert settle(job, Failed("x", is_final=True), NOW).state == "failed"
