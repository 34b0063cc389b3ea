"""Clock changes, read from the zones' files."""

from datetime import UTC, datetime, timedelta

import pytest

from evenbeat.core.time.schedules.base.clock_changes import find_clock_changes, offset_at

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    "zone",
    [
        "Europe/Berlin",
        "Africa/Casablanca",
        "America/Sao_Paulo",
        "Asia/Gaza",
        "Asia/Kolkata",
        "Australia/Lord_Howe",
        "Europe/Dublin",
        "Pacific/Apia",
        "UTC",
    ],
)
# Listed by the files of some machines and computed on others; by rule; thrice.
@pytest.mark.parametrize("year", [2000, 2011, 2026, 2037, 2038, 2040, 2087, 2100, 2199])
def test_changes_are_where_the_offset_changes_from_hour_to_hour(zone: str, year: int) -> None:
    at, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    walked = list[datetime]()
    while at < end:
        if offset_at(zone, at) != offset_at(zone, at - HOUR):
            walked.append(at)
        at += HOUR
    # Two zones of the world change at half past.
    assert [
        change + (-(change - end) % HOUR) for change in find_clock_changes(zone, year)
    ] == walked
