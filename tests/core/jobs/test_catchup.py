"""Beats that nobody ran in time."""

from datetime import timedelta

import pytest

from evenbeat.core.jobs.catchup import OVERDUE, MissedBeats
from evenbeat.core.jobs.model import CatchUp, Cause
from evenbeat.core.runs.outcome import Done, Failed, Skipped
from evenbeat.core.runs.settle import settle, skip_if_too_late
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from tests.core.given import HOUR, MINUTE, ONCE, SECOND, at, claimed, every

DEAD = Failed("boom", is_final=True)


def test_missed_beats_become_one_run_and_one_row():
    verdict = settle(claimed(started_at=at(5, 30)), Done(), at(5, 40))
    assert verdict.next_beat_at == at(6)
    made_up = "made up by the run before, number 7"
    assert verdict.missed == MissedBeats(5, at(1), at(5), made_up)


def test_beats_that_come_due_while_the_job_runs_are_missed():
    verdict = settle(claimed(), Done(), at(2, 40))
    assert verdict.next_beat_at == at(3)
    still_going = "the run before, number 7, was still going"
    assert verdict.missed == MissedBeats(2, at(1), at(2), still_going)


def test_a_beat_at_the_very_instant_of_the_end_is_behind():
    verdict = settle(claimed(), Done(), at(1))
    assert (verdict.next_beat_at, verdict.missed and verdict.missed.count) == (at(2), 1)


def test_beats_behind_a_beat_that_failed_are_not_said_to_be_made_up():
    verdict = settle(claimed(started_at=at(1, 30)), DEAD, at(1, 40))
    assert verdict.missed
    assert verdict.missed.reason == "the beat before was still being tried, last by run number 7"


def test_while_a_retry_waits_nothing_is_missed_yet():
    assert settle(claimed(), Failed("boom"), at(5)).missed is None


def test_a_manual_run_misses_nothing_and_moves_nothing():
    verdict = settle(claimed(cause=Cause.MANUAL), Done(), at(5, 30))
    assert (verdict.missed, verdict.moves_cursor) == (None, False)


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_retry_of_a_job_that_was_edited_meanwhile_leaves_its_new_cursor(catch_up: CatchUp):
    job = claimed(cause=Cause.RETRY, catch_up=catch_up, facts={"next_beat_at": at(9)})
    verdict = settle(job, Done(), at(5, 30))
    assert (verdict.next_beat_at, verdict.missed) == (at(9), None)


def test_after_an_edit_only_beats_of_the_new_plan_are_missed():
    job = claimed(cause=Cause.RETRY, facts={"next_beat_at": at(4)})
    verdict = settle(job, Done(), at(5, 30))
    assert verdict.missed
    assert (verdict.next_beat_at, verdict.missed.first_at) == (at(6), at(4))
    assert verdict.missed.count == 2


def test_nothing_is_missed_once_the_job_has_had_all_its_runs():
    job = claimed(every(HOUR, max_runs=1))
    verdict = settle(job, Done(), at(5, 30))
    assert (verdict.state, verdict.missed) == ("completed", None)


def test_what_was_missed_before_the_window_closed_is_still_told():
    verdict = settle(claimed(every(HOUR, ends_at=at(2, 30))), Done(), at(5, 30))
    assert verdict.state == "completed"
    assert verdict.missed
    assert (verdict.missed.count, verdict.missed.until_at) == (2, at(2))


def test_a_beat_at_the_very_instant_of_the_start_is_made_up():
    verdict = settle(claimed(started_at=at(1)), Done(), at(1, 10))
    assert verdict.missed
    assert verdict.missed.reason.startswith("made up")


def test_with_catch_up_none_nothing_is_said_to_be_made_up():
    verdict = settle(claimed(started_at=at(1, 30), catch_up=CatchUp.NONE), Done(), at(1, 40))
    assert verdict.missed
    assert verdict.missed.reason == "no node was there to run it, and catch_up is none"


def test_more_beats_may_be_missed_than_there_are_runs_to_come():
    verdict = settle(claimed(every(HOUR, max_runs=3)), Done(), at(5, 30))
    assert (verdict.next_beat_at, verdict.missed and verdict.missed.count) == (at(6), 5)


def test_the_beats_of_a_cron_are_counted_so_far_and_said_to_be_more():
    minutely = Timetable(parse_schedule("* * * * *"))
    verdict = settle(claimed(minutely), Done(), at(48))
    assert verdict.missed
    assert (verdict.missed.count, verdict.missed.until_at) == (1001, at(48))
    assert verdict.missed.reason.endswith("; there are more than the 1001 counted")


def test_with_catch_up_none_what_is_overdue_is_missed():
    job = claimed(started_at=at(0, 0, 30), catch_up=CatchUp.NONE)
    verdict = settle(job, Done(), at(3, 30))
    assert (verdict.next_beat_at, verdict.missed and verdict.missed.count) == (at(4), 3)


def test_with_catch_up_all_the_cursor_walks_beat_by_beat():
    verdict = settle(claimed(catch_up=CatchUp.ALL), Done(), at(5, 30))
    assert (verdict.next_beat_at, verdict.missed) == (at(1), None)


def test_with_catch_up_all_exactly_the_cap_is_no_surplus():
    verdict = settle(claimed(catch_up=CatchUp.ALL, catch_up_cap=5), Done(), at(5, 30))
    assert (verdict.next_beat_at, verdict.missed) == (at(1), None)


def test_with_catch_up_all_the_oldest_beats_over_the_cap_go():
    verdict = settle(claimed(catch_up=CatchUp.ALL, catch_up_cap=2), Done(), at(5, 30))
    assert verdict.next_beat_at == at(4)
    reason = "more than 2 beats behind (catch_up_cap): the oldest go"
    assert verdict.missed == MissedBeats(3, at(1), at(3), reason)


def test_the_newest_beats_are_kept_although_fewer_runs_are_to_come():
    job = claimed(every(HOUR, max_runs=3), catch_up=CatchUp.ALL, catch_up_cap=2)
    verdict = settle(job, Done(), at(5, 30))
    assert (verdict.next_beat_at, verdict.missed and verdict.missed.count) == (at(4), 3)


def test_the_newest_beats_of_a_long_downtime_are_found():
    job = claimed(Timetable(parse_schedule("* * * * *")), catch_up=CatchUp.ALL, catch_up_cap=3)
    verdict = settle(job, Done(), at(300))
    assert verdict.next_beat_at == at(299, 58)
    assert verdict.missed
    assert verdict.missed.until_at == at(299, 57)


def test_a_year_of_minutes_is_counted_to_the_last_beat_without_delay():
    year = timedelta(days=365)
    verdict = settle(claimed(every(MINUTE)), Done(), at(0) + year)
    assert verdict.missed
    assert verdict.missed.count == 365 * 24 * 60
    assert verdict.missed.until_at == at(0) + year


@pytest.mark.parametrize("cause", [Cause.SCHEDULE, Cause.CATCHUP])
def test_a_beat_later_than_its_start_deadline_is_skipped(cause: Cause):
    job = claimed(cause=cause, start_deadline=10 * MINUTE)
    assert skip_if_too_late(job, at(0, 10)) is None
    late = "10 minutes 1 second late, and start_deadline is 10 minutes"
    assert skip_if_too_late(job, at(0, 10, 1)) == Skipped(late)


@pytest.mark.parametrize("cause", [Cause.MANUAL, Cause.RETRY])
def test_a_run_by_hand_and_a_retry_are_never_too_late(cause: Cause):
    job = claimed(cause=cause, start_deadline=MINUTE, catch_up=CatchUp.NONE)
    assert skip_if_too_late(job, at(9)) is None


def test_a_one_off_job_may_have_a_deadline_but_has_nothing_to_catch_up():
    assert skip_if_too_late(claimed(ONCE, catch_up=CatchUp.NONE), at(9)) is None
    assert skip_if_too_late(claimed(ONCE, start_deadline=HOUR), at(9)) is not None


def test_with_catch_up_none_a_beat_more_than_a_minute_late_is_skipped():
    job = claimed(catch_up=CatchUp.NONE)
    assert skip_if_too_late(job, at(0) + OVERDUE) is None
    assert skip_if_too_late(job, at(0, 1, 1)) == Skipped(
        "1 minute 1 second late, and catch_up is none"
    )


def test_by_default_no_beat_is_too_late():
    assert skip_if_too_late(claimed(), at(9)) is None


def test_a_later_beat_that_is_still_in_time_is_run_although_an_earlier_one_was_skipped():
    job = claimed(started_at=at(5, 5), start_deadline=10 * MINUTE)
    verdict = settle(job, Skipped("late"), at(5, 5))
    assert verdict.next_beat_at == at(5)
    assert verdict.missed == MissedBeats(4, at(1), at(4), "too late, like the beat before")


def test_a_beat_late_by_exactly_its_deadline_is_in_time_for_settling_as_for_deciding():
    job = claimed(started_at=at(5, 10), start_deadline=10 * MINUTE)
    assert settle(job, Skipped("late"), at(5, 10)).next_beat_at == at(5)


def test_with_catch_up_none_a_skip_goes_on_to_the_beat_that_is_due_now():
    job = claimed(started_at=at(5, 0, 30), catch_up=CatchUp.NONE)
    verdict = settle(job, Skipped("late"), at(5) + 30 * SECOND)
    assert (verdict.next_beat_at, verdict.missed and verdict.missed.count) == (at(5), 4)


def test_a_skip_for_another_reason_goes_on_after_now():
    verdict = settle(claimed(), Skipped("a holiday"), at(5, 5))
    assert verdict.next_beat_at == at(6)
