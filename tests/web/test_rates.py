"""Rate limits, with a clock that the test moves."""

import pytest

from evenbeat.core.errors import TooManyRequests
from evenbeat.web.rate_limits import SAVED_UP, RateLimiter, network_of_address


class Given:
    """Rates of 10 a second, and the time."""

    def __init__(self, rate: float = 10, most: int = 100) -> None:
        self.now = 0.0
        self.rates = RateLimiter(rate, most=most, elapsed=lambda: self.now)

    def taken(self, caller: str = "me") -> int:
        """How many requests are allowed at this moment."""
        for count in range(10_000):
            try:
                self.rates.take(caller)
            except TooManyRequests:
                return count
        raise AssertionError("no limit")


def test_as_much_as_was_saved_up_is_allowed_at_once_and_then_the_rate() -> None:
    given = Given()
    assert given.taken() == 10 * SAVED_UP
    given.now += 1
    assert given.taken() == 10
    given.now += 3600
    assert given.taken() == 10 * SAVED_UP


def test_a_caller_that_waits_for_retry_after_is_let_in() -> None:
    given = Given(rate=0.5)
    given.taken()
    with pytest.raises(TooManyRequests) as caught:
        given.rates.take("me")
    given.now += caught.value.retry_after
    given.rates.take("me")


def test_what_is_refused_costs_nothing() -> None:
    given = Given()
    given.taken()
    for _ in range(1_000):
        with pytest.raises(TooManyRequests):
            given.rates.take("me")
    given.now += 1
    assert given.taken() == 10


def test_each_caller_has_their_own() -> None:
    given = Given()
    assert given.taken("me") == given.taken("you") == 10 * SAVED_UP


def test_memory_is_bounded_and_the_longest_silent_are_forgotten_first() -> None:
    given = Given(most=3)
    given.taken("busy")
    for number in range(1_000):
        given.rates.take(f"caller {number}")
        with pytest.raises(TooManyRequests):
            given.rates.take("busy")
    assert len(given.rates._buckets) == 3


def test_headers_tell_what_is_left() -> None:
    headers = Given().rates.take("me").headers()
    assert headers == {"RateLimit-Policy": '"caller";q=50;w=5', "RateLimit": '"caller";r=49;t=1'}


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_network_of_ipv6_is_one_stranger(address: str, counted: str) -> None:
    assert network_of_address(address) == counted
