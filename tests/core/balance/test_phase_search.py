"""Where jobs go: within an interval from now, into the emptiest slot, minute and second."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from evenbeat.core.balance.bulk_placement import place_jobs
from evenbeat.core.balance.model import DAY_S, HOUR_S, WEEK_S, JobLoad, instant_of, seconds_of
from evenbeat.core.balance.phase_search import find_placement, place_job
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules.base.window import Window

NOW = datetime(2030, 1, 2, 10, 7, 23, 500, tzinfo=UTC)
NIGHT = Window.parse("22:00-06:00 Europe/Berlin")
WORK = Window.parse("mon-fri 09:00-17:00 America/New_York outside=skip")


def test_hourly_jobs_added_one_by_one_share_the_hour_evenly():
    ring = LoadRing(NOW)
    for job in range(60):
        place_job(ring, JobLoad(job, HOUR_S), NOW)
    assert set(ring.slot.tolist()) == {15}
    assert set(ring.minute.tolist()) == {1}
    assert ring.second.max() == 1


def test_a_few_daily_jobs_are_spread_over_the_day_not_over_the_next_hour():
    ring = LoadRing(NOW)
    firsts = sorted(place_job(ring, JobLoad(job, DAY_S), NOW).first_at for job in range(4))
    gaps = np.diff([seconds_of(first) for first in firsts])
    assert gaps.min() >= 4 * HOUR_S


def test_jobs_keep_away_from_a_pinned_spike():
    ring = LoadRing(NOW)
    midnight = seconds_of(datetime(2030, 1, 3, tzinfo=UTC))
    for job in range(100):
        nightly = tuple(range(midnight, midnight + WEEK_S, DAY_S))
        ring.add(JobLoad(job, pinned_at=nightly))
    spike = int(np.argmax(ring.slot))
    for job in range(100, 250):
        place_job(ring, JobLoad(job, HOUR_S), NOW)
    assert ring.slot[spike] == 100


def test_long_runs_are_kept_apart():
    """Ten jobs of two hours a day fit into the day without ever meeting."""
    ring = LoadRing(NOW)
    for job in range(10):
        place_job(ring, JobLoad(job, DAY_S, cost_s=2 * HOUR_S), NOW)
    assert ring.busy.max() <= 60


def test_jobs_keep_away_from_work_that_goes_on_for_hours():
    ring = LoadRing(NOW)
    ring.add(JobLoad(1, DAY_S, ring.start_s % DAY_S, cost_s=12 * HOUR_S))
    ends_at = ring.start_at + timedelta(hours=12)
    for job in range(2, 22):
        first = place_job(ring, JobLoad(job, DAY_S, cost_s=60), NOW).first_at
        assert ends_at <= first < ends_at + timedelta(hours=12)


@pytest.mark.parametrize("window", [NIGHT, WORK], ids=str)
@pytest.mark.parametrize("interval", [HOUR_S, 7 * HOUR_S, DAY_S, 3 * DAY_S, WEEK_S])
def test_the_first_beat_is_inside_the_window(window: Window, interval: int):
    ring = LoadRing(NOW)
    for job in range(20):
        found = place_job(ring, JobLoad(job, interval, window=window), NOW)
        assert window.is_open(found.first_at)
        opening = NOW if window.is_open(NOW) else window.next_opening(NOW)
        assert found.first_at <= max(NOW, opening) + timedelta(seconds=interval)


def test_a_daily_job_beats_inside_its_window_every_day():
    ring = LoadRing(NOW)
    for job in range(50):
        found = place_job(ring, JobLoad(job, DAY_S, window=NIGHT), NOW)
        assert all(NIGHT.is_open(found.first_at + timedelta(days=day)) for day in range(7))
    assert ring.slot.sum() == 350
    assert ring.slot.max() <= 2


def test_a_preference_is_followed_until_that_time_is_too_full():
    night = Window.parse("00:00-06:00")
    ring = LoadRing(NOW)
    for job in range(960):
        place_job(ring, JobLoad(job, DAY_S), NOW)
    before = ring.slot.copy()
    for job in range(1000, 1040):
        found = place_job(ring, JobLoad(job, DAY_S, prefers=night), NOW)
        assert night.is_open(found.first_at)
    for job in range(2000, 2960):
        place_job(ring, JobLoad(job, DAY_S, prefers=night), NOW)
    assert (ring.slot > before).mean() > 0.5, "a preference is no window"


def test_slack_is_used_to_leave_the_full_minute_and_never_more_than_that():
    ring = LoadRing(NOW)
    hours = tuple(range(ring.start_s + HOUR_S, ring.start_s + WEEK_S - HOUR_S, HOUR_S))
    for job in range(60):
        found = place_job(ring, JobLoad(job, pinned_at=hours, within_s=1800), NOW)
        assert 0 <= found.phase_s <= 1800
    assert ring.second.max() == 1
    assert ring.slot.max() <= 31
    assert find_placement(ring, JobLoad(99, pinned_at=hours), NOW).phase_s == 0


def test_intervals_of_months_are_spread_over_the_weeks():
    ring = LoadRing(NOW)
    month = 28 * DAY_S
    firsts = [place_job(ring, JobLoad(job, month), NOW).first_at for job in range(40)]
    weeks = [(first - NOW) // timedelta(days=7) for first in firsts]
    assert {weeks.count(week) for week in range(4)} <= {9, 10, 11}
    assert len(set(firsts)) == 40


def test_many_at_once_are_answered_in_the_order_in_which_they_were_given():
    ring = LoadRing(NOW)
    loads = [
        JobLoad(job, HOUR_S * (1 + job % 3), window=NIGHT if job % 5 else None) for job in range(40)
    ]
    found = place_jobs(ring, loads, NOW)
    assert [placement.job for placement in found] == list(range(40))
    again = LoadRing(NOW)
    again.add_all(
        replace(load, phase_s=placement.phase_s)
        for load, placement in zip(loads, found, strict=True)
    )
    assert (again.second == ring.second).all()
    for load, placement in zip(loads, found, strict=True):
        assert seconds_of(placement.first_at) % load.interval_s == placement.phase_s


def test_a_window_open_only_at_the_very_end_of_the_interval_is_met():
    now = datetime(2030, 1, 2, 10, 0, 30, tzinfo=UTC)
    window = Window.parse("10:10-10:11 outside=skip")
    ring = LoadRing(now)
    found = place_job(ring, JobLoad(1, 577, window=window), now)
    assert found.first_at <= instant_of(seconds_of(now) + 577)
    assert window.is_open(found.first_at)


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval_s": -1},
        {"interval_s": 60, "within_s": 5},
        {"interval_s": 60, "pinned_at": (1,)},
        {"phase_s": 10, "within_s": 5},
    ],
    ids=str,
)
def test_a_load_that_makes_no_sense_is_refused(wrong: dict[str, int]):
    with pytest.raises(InvalidInput):
        JobLoad(1, **wrong)
