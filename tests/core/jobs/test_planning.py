"""When a job runs first."""

from datetime import datetime, timedelta

import pytest

from evenbeat.core.jobs.model import State
from evenbeat.core.jobs.planning import (
    find_beat_after_edit,
    find_beat_after_pause,
    first_beat,
    initial_state,
    keep_phase,
)
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.schedules.now import Now
from evenbeat.core.time.schedules.once import Once
from evenbeat.core.time.timetable import Timetable, TimetableBounds
from tests.core.given import HOUR, HOURLY, MINUTE, ONCE, at, definition, every

NOON = at(12)


def test_a_job_for_now_is_due_now():
    assert first_beat(Timetable(Now()), at(0, 5)) == at(0, 5)


@pytest.mark.parametrize("instant", [at(1), at(23)])
def test_a_job_for_an_instant_is_due_then_even_if_it_has_passed(instant: datetime):
    assert first_beat(Timetable(Once(instant)), NOON) == instant


def test_an_interval_without_a_phase_beats_first_after_one_interval():
    now = at(12, 7, 31)
    timetable = Timetable(Every(50 * MINUTE))
    assert first_beat(timetable, now) == now + 50 * MINUTE
    assert timetable.planned_at(now).next_after(now + 50 * MINUTE) == now + 100 * MINUTE


def test_an_interval_with_a_phase_beats_first_on_its_grid():
    assert first_beat(HOURLY, at(12, 7)) == at(13)


def test_a_time_of_day_that_is_still_ahead_counts_today():
    assert first_beat(Timetable(parse_schedule("daily 13:00")), NOON) == at(13)


def test_a_job_that_starts_later_beats_first_then():
    assert first_beat(
        Timetable(parse_schedule("daily 13:00"), TimetableBounds(starts_at=at(40))), NOON
    ) == at(61)


def test_a_job_whose_window_is_over_has_no_first_beat():
    assert first_beat(every(HOUR, ends_at=at(1)), NOON) is None


def test_a_one_off_job_begins_pending_and_a_recurring_one_scheduled():
    assert initial_state(definition(ONCE)) is State.PENDING
    assert initial_state(definition(HOURLY)) is State.SCHEDULED


def test_an_edit_takes_the_first_beat_of_the_new_timetable():
    assert find_beat_after_edit(Timetable(parse_schedule("daily 18:00")), NOON) == at(18)
    assert find_beat_after_edit(HOURLY, NOON) == at(13)


def test_an_edit_to_a_passed_instant_is_due_at_once():
    assert find_beat_after_edit(Timetable(Once(at(3))), NOON) == at(3)


def test_an_edit_to_a_passed_instant_does_not_run_a_job_twice():
    assert find_beat_after_edit(Timetable(Once(at(3))), NOON, is_owed=False) is None
    assert find_beat_after_edit(Timetable(Once(at(18))), NOON, is_owed=False) == at(18)


def test_an_edit_of_a_job_that_had_all_its_runs_plans_nothing():
    assert find_beat_after_edit(every(HOUR, max_runs=2), NOON, runs_so_far=2) is None
    assert find_beat_after_edit(every(HOUR, max_runs=3), NOON, runs_so_far=2) == at(13)


def test_an_edit_to_an_interval_without_a_phase_beats_after_one_interval():
    assert find_beat_after_edit(Timetable(Every(timedelta(minutes=7))), NOON) == NOON + 7 * MINUTE


def test_an_interval_that_says_no_phase_keeps_the_one_it_had():
    placed = Timetable(Every(7 * MINUTE)).at_phase(3 * MINUTE)
    assert keep_phase(Timetable(Every(7 * MINUTE)), placed, NOON) == placed
    bounded = Timetable(Every(7 * MINUTE), TimetableBounds(max_runs=3))
    assert keep_phase(bounded, placed, NOON) == bounded.at_phase(3 * MINUTE)
    for other in (Every(8 * MINUTE), Every(7 * MINUTE, phase=MINUTE), Once(NOON)):
        planned = Timetable(other).planned_at(NOON)
        assert keep_phase(Timetable(other), placed, NOON) == planned
    fresh = Timetable(Every(7 * MINUTE))
    assert keep_phase(fresh, ONCE, NOON) == fresh.planned_at(NOON)


def test_a_resumed_interval_job_beats_within_one_interval():
    assert find_beat_after_pause(at(3), HOURLY, at(12, 20)) == at(13)
    assert find_beat_after_pause(at(3), Timetable(Every(HOUR)), at(12, 20)) == at(13, 20)


def test_a_resumed_job_does_not_run_at_once_for_the_beats_of_its_pause():
    assert find_beat_after_pause(at(12), HOURLY, at(12)) == at(13)


def test_a_resumed_one_off_job_is_still_owed_its_beat():
    assert find_beat_after_pause(at(0), ONCE, NOON) == at(0)


def test_a_resumed_job_that_had_all_its_runs_has_no_beat():
    assert find_beat_after_pause(None, every(HOUR, max_runs=2), NOON, runs_so_far=2) is None
