"""How a policy is written: only what differs from the defaults."""

from datetime import timedelta

import pytest

from evenbeat.core.jobs.backoff import Fixed, RetryRule
from evenbeat.core.jobs.model import CatchUp, Policy
from evenbeat.store.jobs.definitions import decode_policy, encode_policy


def test_the_default_policy_is_an_empty_object() -> None:
    assert encode_policy(Policy()) == {}
    assert decode_policy({}) == Policy()


def test_only_what_differs_is_written() -> None:
    policy = Policy(timeout=timedelta(minutes=5), catch_up=CatchUp.NONE)
    assert encode_policy(policy) == {"timeout": 300.0, "catch_up": "none"}


def test_a_written_policy_is_read_back() -> None:
    policy = Policy(
        max_attempts=9,
        backoff=Fixed(wait=timedelta(seconds=3)),
        start_deadline=timedelta(hours=1),
        retry_rules=(RetryRule("timeout", Fixed(), 2),),
    )
    assert decode_policy(encode_policy(policy)) == policy


def test_what_this_version_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError, match="mood"):
        decode_policy({"mood": "sunny"})
