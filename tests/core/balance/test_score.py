"""The score, the hours an operator sees, and the forecast."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from evenbeat.core.balance.forecast import forecast_slots
from evenbeat.core.balance.ideal_load import water_level
from evenbeat.core.balance.model import DAY_S, HOUR_S, JobLoad, seconds_of
from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.balance.score import measure_distribution, measure_score
from evenbeat.core.errors import InvalidInput

NOW = datetime(2030, 1, 2, 10, 7, 23, tzinfo=UTC)


def ring_of(*loads: JobLoad) -> LoadRing:
    ring = LoadRing(NOW)
    ring.add_all(loads)
    return ring


def test_an_empty_week_is_even():
    empty = measure_score(LoadRing(NOW))
    assert (empty.score, empty.minute_score, empty.peak) == (1.0, 1.0, 0)


def test_one_job_in_every_slot_scores_one_and_all_at_once_scores_nothing():
    even = measure_score(ring_of(*(JobLoad(job, DAY_S, job * 900) for job in range(96))))
    assert (even.score, even.peak, even.peak_over_ideal) == (1.0, 1, 1.0)
    herd = measure_score(ring_of(*(JobLoad(job, DAY_S, 0) for job in range(96))))
    assert (herd.score, herd.peak, herd.peak_over_ideal) == (0.0, 96, 96.0)


def test_a_run_more_than_there_are_slots_has_to_go_somewhere():
    jobs = [JobLoad(job, DAY_S, job * 900 % DAY_S) for job in range(97)]
    assert measure_score(ring_of(*jobs)).score == 1.0
    jobs[50] = JobLoad(50, DAY_S, 0)
    assert measure_score(ring_of(*jobs)).score == pytest.approx(1 - 1 / 95)


def test_nobody_is_blamed_for_what_is_pinned_or_forced():
    midnight = seconds_of(datetime(2030, 1, 3, tzinfo=UTC))
    pinned = [JobLoad(job, pinned_at=(midnight,)) for job in range(50)]
    short = [JobLoad(100 + job, 300, 0) for job in range(20)]
    assert measure_score(ring_of(*pinned, *short)).score == 1.0
    assert measure_score(ring_of(*pinned, *short)).peak_over_ideal == 1.0


def test_water_stands_level_over_uneven_ground():
    assert water_level(np.array([0.0, 2.0, 10.0]), 6.0) == 4.0
    assert water_level(np.array([5.0, 5.0]), 0.0) == 0.0


def test_the_hours_are_counted_from_now_and_the_earliest_peak_is_named():
    ten = seconds_of(NOW) // 900 * 900
    view = measure_distribution(
        ring_of(
            JobLoad(1, 600, 0),
            JobLoad(2, DAY_S, ten + 3 * HOUR_S),
            JobLoad(3, DAY_S, ten + 5 * HOUR_S),
        )
    )
    assert [hour.hour for hour in view.hours] == list(range(24))
    assert view.hours[0].starts_at == datetime(2030, 1, 2, 10, tzinfo=UTC)
    assert [(hour.job_count, hour.runs) for hour in view.hours[2:6]] == [
        *((1, 6), (2, 7)),
        *((1, 6), (2, 7)),
    ]
    assert (view.peak_hour, view.peak_count, view.total_jobs) == (3, 2, 3)


def test_a_forecast_tells_runs_and_concurrency_of_every_slot_of_the_week():
    slots = forecast_slots(ring_of(JobLoad(1, HOUR_S, 0, cost_s=900)), NOW)
    assert len(slots) == 672
    assert slots[1].starts_at - slots[0].starts_at == timedelta(minutes=15)
    assert [(slot.runs, slot.concurrency) for slot in slots[:4]] == [(1, 1), (0, 0), (0, 0), (0, 0)]


def test_what_if_there_were_more_jobs_and_so_many_workers():
    ring = ring_of(*(JobLoad(job, DAY_S, 0, cost_s=600) for job in range(20)))
    enough, two = forecast_slots(ring, NOW, workers=20), forecast_slots(ring, NOW, workers=2)
    assert not any(slot.waiting for slot in enough)
    assert max(slot.waiting for slot in two) == timedelta(minutes=90)
    more = forecast_slots(ring, NOW, extra=[JobLoad(100 + job, HOUR_S) for job in range(8)])
    assert sum(slot.runs for slot in more[:4]) == 8
    assert max(slot.runs for slot in more) == 20, "they keep away from midnight"
    assert ring.job_count == 20, "what-if leaves the ring as it was"
    with pytest.raises(InvalidInput):
        forecast_slots(ring, NOW, workers=0)
