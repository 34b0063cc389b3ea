"""Windows as masks agree with the windows themselves, clock changes and all."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from evenbeat.core.balance.model import instant_of, seconds_of
from evenbeat.core.balance.window_mask import open_minutes, opening_seconds
from evenbeat.core.time.schedules.base.window import Window


@pytest.mark.parametrize(
    "text",
    [
        "22:00-06:00 Europe/Berlin",
        "00:00-24:00",
        "mon-fri 09:10-17:05, sat 23:00-02:00",
        "sun 02:00-03:00 Europe/Berlin",
    ],
)
@pytest.mark.parametrize(
    "start",
    [
        datetime(2030, 1, 2, 10, 0, tzinfo=UTC),
        datetime(2030, 3, 28, 23, 45, tzinfo=UTC),
        datetime(2030, 10, 24, 5, 30, tzinfo=UTC),
    ],
    ids=["winter", "clock leaps", "clock set back"],
)
def test_every_minute_is_open_when_the_window_is(text: str, start: datetime):
    window = Window.parse(text)
    minutes = open_minutes(window, seconds_of(start))
    expected = [window.is_open(start + timedelta(minutes=i)) for i in range(len(minutes))]
    assert minutes.tolist() == expected
    for opening in opening_seconds(window, seconds_of(start)):
        instant = instant_of(seconds_of(start) + int(opening))
        assert window.is_open(instant)
        assert not window.is_open(instant - timedelta(microseconds=1))
    opened = np.flatnonzero(minutes[1:] & ~minutes[:-1]) + 1
    assert set((opened * 60).tolist()) <= set(opening_seconds(window, seconds_of(start)).tolist())
