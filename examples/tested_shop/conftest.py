"""Gives the fixtures of Evenbeat the app under test, and the time at which tests begin."""

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
