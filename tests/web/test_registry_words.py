"""A row of a job registry read as a schedule."""

from typing import Any

import pytest

from evenbeat.api.v1.jobs.wire.job_registry_words import read_schedule
from evenbeat.core.errors import InvalidInput

UNUSED = {
    "interval_seconds": 0,
    "schedule_hour": -1,
    "schedule_minute": 0,
    "schedule_day_of_week": -1,
}
READ = [
    ({"schedule_type": "interval", "interval_seconds": 1800}, {"every": 1800}),
    ({"schedule_type": "hourly", "schedule_minute": 30}, {"hourly": 30}),
    ({"schedule_type": "hourly"}, {"hourly": 0}),
    ({"schedule_type": "daily", "schedule_hour": 6}, {"daily": "06:00"}),
    (
        {"schedule_type": "weekly", "schedule_day_of_week": 0, "schedule_hour": 2},
        {"weekly": "sun 02:00"},
    ),
    (
        {"schedule_type": "weekly", "schedule_day_of_week": 6, "schedule_hour": 23,
         "schedule_minute": 59, "zone": "Europe/Berlin"},
        {"weekly": "sat 23:59", "zone": "Europe/Berlin"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("row", "ours"), READ)
def test_a_row_is_read_with_and_without_the_columns_it_does_not_use(
    row: dict[str, Any], ours: dict[str, Any]
) -> None:
    assert read_schedule(row) == ours
    assert read_schedule(UNUSED | row) == ours


@pytest.mark.parametrize("written", [None, "every 30m", {"daily": "06:00"}, 7, []])
def test_what_is_in_other_words_is_left_alone(written: Any) -> None:
    assert read_schedule(written) is written


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"schedule_type": "yearly"}, "schedule_type"),
        ({"schedule_type": "interval"}, "interval_seconds"),
        ({"schedule_type": "interval", "interval_seconds": True}, "interval_seconds"),
        ({"schedule_type": "interval", "interval_seconds": 9, "zone": "UTC"}, "zone"),
        ({"schedule_type": "interval", "interval_seconds": 9, "schedule_hour": 6}, "schedule_hour"),
        ({"schedule_type": "daily"}, "schedule_hour"),
        ({"schedule_type": "daily", "schedule_hour": 6, "daily": "06:00"}, "daily"),
        ({"schedule_type": "weekly", "schedule_hour": 2}, "schedule_day_of_week"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_column(row: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_schedule(row)
    assert refused.value.errors[0].field == f"schedule.{field}"
