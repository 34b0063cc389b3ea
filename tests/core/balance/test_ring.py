"""The load ring holds every start of the coming week, and forgets what is taken out."""

import tracemalloc
from datetime import UTC, datetime, timedelta

import numpy as np

from evenbeat.core.balance.model import DAY_S, HOUR_S, WEEK_S, JobLoad, seconds_of
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.time.schedules.base.window import Window
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.timetable import Timetable

NOW = datetime(2030, 1, 2, 10, 7, 23, tzinfo=UTC)
# No part of a week, and neither are those a little longer.
DRIFTING = 5 * DAY_S + 1


def test_a_ring_starts_at_a_whole_slot():
    assert LoadRing(NOW).start_at == datetime(2030, 1, 2, 10, 0, tzinfo=UTC)


def test_an_hourly_job_starts_once_an_hour_at_its_second():
    ring = LoadRing(NOW)
    ring.add(JobLoad(1, HOUR_S, phase_s=20 * 60 + 5))
    assert np.flatnonzero(ring.second).tolist() == list(range(20 * 60 + 5, WEEK_S, HOUR_S))
    assert ring.minute.sum() == ring.slot.sum() == 168
    assert ring.slot[:4].tolist() == [0, 1, 0, 0]


def test_work_is_counted_in_the_minutes_in_which_it_goes_on():
    ring = LoadRing(NOW)
    ring.add(JobLoad(1, WEEK_S, phase_s=seconds_of(ring.start_at) + 50, cost_s=80))
    assert ring.busy[:4].tolist() == [10, 60, 10, 0]
    assert ring.busy.sum() == 80


def test_work_beyond_the_end_of_the_week_is_at_its_beginning():
    ring = LoadRing(NOW)
    ring.add(JobLoad(1, WEEK_S, phase_s=seconds_of(ring.start_at) - 30, cost_s=90))
    assert ring.busy[-1] == 30
    assert ring.busy[0] == 60


def test_a_window_leaves_only_the_beats_that_a_timetable_names():
    for text in ("22:00-06:00 Europe/Berlin", "mon-fri 09:00-17:00 outside=skip"):
        window = Window.parse(text)
        every = Every(timedelta(hours=5), timedelta(minutes=17))
        load = JobLoad(1, 5 * HOUR_S, phase_s=17 * 60, window=window)
        ring = LoadRing(NOW)
        ring.add(load)
        beats = Timetable(every, window=window).beats_between(
            ring.start_at - timedelta(seconds=1), ring.start_at + timedelta(days=7), 1000
        )
        starts = {seconds_of(beat) - ring.start_s for beat in beats.instants}
        # What waited for an opening when the week began is not seen by the ring.
        seen = set(np.flatnonzero(ring.second).tolist())
        assert seen <= starts
        assert len(starts - seen) <= 1


def test_pinned_jobs_are_load_that_nobody_moves():
    ring = LoadRing(NOW)
    ring.add(
        JobLoad(1, pinned_at=(seconds_of(NOW), seconds_of(NOW) + DAY_S, seconds_of(NOW) - 900))
    )
    assert ring.slot.sum() == ring.pinned.sum() == ring.pinned_minute.sum() == 2
    assert not ring.rhythms


def test_jobs_of_an_hour_are_counted_once_however_often_they_run():
    ring = LoadRing(NOW)
    ring.add(JobLoad(1, 300, phase_s=0))
    ring.add(JobLoad(2, DAY_S, phase_s=seconds_of(ring.start_at) + 10))
    assert ring.jobs[:3].tolist() == [2, 1, 1]
    assert ring.slot[:4].sum() == 13


def test_what_is_done_to_a_copy_leaves_the_ring_alone():
    ring = LoadRing(NOW)
    ring.add(JobLoad(1, DRIFTING, phase_s=0))
    before = ring.slot.sum()
    ring.copy().add(JobLoad(2, DRIFTING, phase_s=0))
    assert ring.slot.sum() == before
    assert ring.rhythms == {(DRIFTING, None): 1}
    assert ring.drifting[DRIFTING].total() == 1


def test_a_thousand_intervals_that_drift_take_little_room():
    """Each has seven thousand minutes, of which one is taken."""
    ring = LoadRing(NOW)
    for number in range(1_000):
        ring.add(JobLoad(number, DRIFTING + number, phase_s=0))
    assert len(ring.drifting) == 1_000
    assert room_of_copy(ring) - room_of_copy(LoadRing(NOW)) < 2_000_000


def room_of_copy(ring: LoadRing) -> int:
    tracemalloc.start()
    try:
        twin = ring.copy()
        assert twin.job_count == ring.job_count
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
