"""Tells the fixtures of Evenbeat which app is tested, and from when on."""

from datetime import UTC, datetime

import pytest
from shop import eb

from evenbeat import Evenbeat

FRIDAY = datetime(2030, 5, 3, 12, tzinfo=UTC)


@pytest.fixture
def evenbeat_app() -> Evenbeat:
    return eb


@pytest.fixture
def evenbeat_starts_at() -> datetime:
    return FRIDAY
