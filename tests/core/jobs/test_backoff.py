"""How long a failed run waits."""

from datetime import timedelta
from itertools import accumulate

import pytest

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.backoff import (
    LONGEST_BACKOFF,
    Backoff,
    Exponential,
    Fixed,
    Linear,
    RetryRule,
    find_retry_rule,
)

SECOND = timedelta(seconds=1)


def seconds(backoff: Backoff, attempts: int) -> list[float]:
    return [backoff.delay(attempt).total_seconds() for attempt in range(1, attempts + 1)]


def test_by_default_the_wait_doubles_from_a_minute_to_an_hour():
    assert seconds(Exponential(), 8) == [60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_with_a_base_of_two_seconds_five_failures_wait_two_to_thirty_two_seconds():
    waits = seconds(Exponential(2 * SECOND, LONGEST_BACKOFF), 5)
    assert waits == [2, 4, 8, 16, 32]
    assert list(accumulate(waits)) == [2, 6, 14, 30, 62]


def test_there_is_no_attempt_before_the_first():
    assert Exponential().delay(0) == Exponential().delay(1)


def test_linear_waits_grow_by_five_seconds():
    assert seconds(Linear(5 * SECOND), 5) == [5, 10, 15, 20, 25]


def test_linear_waits_stop_growing_at_the_cap():
    assert seconds(Linear(5 * SECOND, cap=12 * SECOND), 4) == [5, 10, 12, 12]


def test_fixed_waits_are_all_the_same():
    assert seconds(Fixed(7 * SECOND), 3) == [7, 7, 7]


@pytest.mark.parametrize("backoff", [Exponential(), Linear(), Fixed(timedelta(hours=1))])
def test_a_huge_attempt_waits_no_longer_than_the_cap(backoff: Backoff):
    assert backoff.delay(10**30) == timedelta(hours=1)


def test_the_smallest_base_reaches_the_largest_cap_and_stays_there():
    backoff = Exponential(timedelta(microseconds=1), LONGEST_BACKOFF)
    assert backoff.delay(41) == backoff.delay(10**6) == LONGEST_BACKOFF


def test_without_a_base_there_is_no_wait():
    assert Exponential(timedelta(0)).delay(10**6) == timedelta(0)


def test_jitter_is_the_same_for_the_same_seed_and_spreads_different_ones():
    backoff = Exponential(jitter=0.5)
    waits = {backoff.delay(1, seed=(job, 1)) for job in range(100)}
    assert backoff.delay(1, seed=(1, 1)) == backoff.delay(1, seed=(1, 1))
    assert len(waits) > 90
    assert 30 * SECOND < min(waits) < 35 * SECOND
    assert 55 * SECOND < max(waits) <= 60 * SECOND


def test_jitter_still_spreads_the_waits_that_have_reached_the_cap():
    waits = {Exponential(jitter=0.2).delay(50, seed=job) for job in range(50)}
    assert len(waits) > 40
    assert max(waits) <= timedelta(hours=1)


@pytest.mark.parametrize(
    "backoff",
    [
        Exponential(jitter=0.25),
        Linear(1.5 * SECOND, timedelta(days=1)),
        Fixed(timedelta(0)),
        Exponential(timedelta(milliseconds=250), LONGEST_BACKOFF),
    ],
)
def test_an_object_reads_back_as_the_same_backoff(backoff: Backoff):
    assert Backoff.from_object(backoff.to_object()) == backoff


def test_an_object_is_plain_json_in_seconds():
    assert Exponential().to_object() == {
        "kind": "exponential",
        "base": 60,
        "cap": 3600,
        "jitter": 0.0,
    }


def test_what_an_object_leaves_out_has_its_default():
    assert Backoff.from_object({}) == Exponential()
    assert Backoff.from_object({"kind": "linear", "cap": 9}) == Linear(cap=9 * SECOND)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("60", "policy.backoff"),
        ({"kind": "random"}, "policy.backoff.kind"),
        ({"kind": ["linear"]}, "policy.backoff.kind"),
        ({"base": -1}, "policy.backoff.base"),
        ({"base": 864_001}, "policy.backoff.base"),
        ({"base": "60"}, "policy.backoff.base"),
        ({"base": True}, "policy.backoff.base"),
        ({"base": None}, "policy.backoff.base"),
        ({"base": float("nan")}, "policy.backoff.base"),
        ({"base": 10**400}, "policy.backoff.base"),
        ({"cap": float("inf")}, "policy.backoff.cap"),
        ({"jitter": 1.1}, "policy.backoff.jitter"),
        ({"step": 5}, "policy.backoff.step"),
    ],
)
def test_a_bad_object_is_refused_and_names_its_field(given: object, field: str):
    with pytest.raises(InvalidInput) as caught:
        Backoff.from_object(given, "policy.backoff")
    assert [error.field for error in caught.value.errors] == [field]


def test_every_bad_field_is_named_at_once():
    with pytest.raises(InvalidInput) as caught:
        Backoff.from_object({"kind": "linear", "step": -1, "cap": -1})
    assert [error.field for error in caught.value.errors] == ["backoff.step", "backoff.cap"]


@pytest.mark.parametrize("wait", [-SECOND, LONGEST_BACKOFF + SECOND])
def test_a_backoff_out_of_bounds_cannot_be_made(wait: timedelta):
    with pytest.raises(InvalidInput, match="base: must be from 0 seconds to 10 days"):
        Exponential(wait)


def test_jitter_above_one_would_be_a_wait_into_the_past():
    with pytest.raises(InvalidInput, match="jitter"):
        Fixed(SECOND, jitter=1.5)


def test_a_rule_for_the_type_goes_before_a_rule_for_the_class():
    by_class, by_type = RetryRule("handler_error"), RetryRule("ValueError", max_attempts=1)
    rules = [by_class, by_type]
    assert find_retry_rule(rules, "ValueError", "handler_error") is by_type
    assert find_retry_rule(rules, "KeyError", "handler_error") is by_class
    assert find_retry_rule(rules, None, "timeout") is None


def test_of_two_rules_for_one_error_the_first_holds():
    first, second = RetryRule("timeout", max_attempts=1), RetryRule("timeout", max_attempts=2)
    assert find_retry_rule([first, second], "timeout") is first


@pytest.mark.parametrize(
    "rule",
    [RetryRule("timeout", max_attempts=1), RetryRule("KeyError", Fixed(SECOND), 9)],
)
def test_a_rule_reads_back_as_the_same_rule(rule: RetryRule):
    assert RetryRule.from_object(rule.to_object()) == rule


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "rules.error"),
        ({"error": 5}, "rules.error"),
        ({"error": "timeout", "max_attempts": 0}, "rules.max_attempts"),
        ({"error": "timeout", "max_attempts": True}, "rules.max_attempts"),
        ({"error": "timeout", "backoff": {"base": -1}}, "rules.backoff.base"),
        ({"error": "timeout", "retry": False}, "rules.retry"),
    ],
)
def test_a_bad_rule_is_refused_and_names_its_field(given: object, field: str):
    with pytest.raises(InvalidInput) as caught:
        RetryRule.from_object(given, "rules")
    assert [error.field for error in caught.value.errors] == [field]


@pytest.mark.parametrize("given", [{"error": ""}, {"error": "timeout", "max_attempts": 0}])
def test_a_rule_without_sense_cannot_be_made(given: dict[str, object]):
    with pytest.raises(InvalidInput):
        RetryRule(**given)  # type: ignore[arg-type]
