"""Secrets by reference: filled in for a run, masked in all that it leaves."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from evenbeat.core.errors import InvalidInput, NoSuchSecret
from evenbeat.core.runs.secrets import MASK, Secrets, check_references, holds_reference

STORED = {"key": 'p"a\\ss wörd/1', "token": "Bearer abcdef123456", "short": "xy", "empty": ""}


def secrets() -> Secrets:
    return Secrets(STORED.get)


def test_references_are_filled_in_wherever_they_stand() -> None:
    payload = {"a": {"secret": "key"}, "b": [1, {"c": {"secret": "short"}}], "d": None}
    filled = {"a": STORED["key"], "b": [1, {"c": "xy"}], "d": None}
    assert secrets().fill(payload) == filled
    assert secrets().fill({"secret": "key"}) == STORED["key"]


@pytest.mark.parametrize(
    "value", [{"secret": "key", "more": 1}, {"secret": 3}, {"Secret": "key"}, "secret", ["secret"]]
)
def test_what_is_no_reference_stays_as_it_is(value: Any) -> None:
    assert secrets().fill(value) == value
    assert not holds_reference(value)


@pytest.mark.parametrize("name", ["nonesuch", "empty", "", "../etc/passwd", "a/b", ".hidden", "é"])
def test_a_secret_that_is_not_there_is_told_by_its_name(name: str) -> None:
    with pytest.raises(NoSuchSecret, match="there is no secret"):
        secrets()[name]


@pytest.mark.parametrize("name", ["../x", "", "a b", "x" * 101, ".x"])
def test_a_name_no_secret_can_have_is_refused_where_it_stands(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_references({"a": [{"secret": name}]}, "payload")
    assert refused.value.errors[0].field == "payload.a[0].secret"
    check_references({"a": [{"secret": "fine-name_1.x"}]}, "payload")


def test_only_what_was_read_is_masked() -> None:
    read = secrets()
    assert read.mask("Bearer abcdef123456") == "Bearer abcdef123456"
    assert read["token"] == "Bearer abcdef123456"
    assert read.mask("sent Bearer abcdef123456.") == f"sent {MASK}."


@pytest.mark.parametrize(
    "spelt", [lambda x: x, quote, lambda x: quote(x, safe=""), json.dumps, repr, lambda x: f"({x})"]
)
def test_a_secret_is_masked_however_it_is_spelt(spelt: Any) -> None:
    read = secrets()
    read.fill({"secret": "key"})
    shown = read.mask(f"<{spelt(STORED['key'])}>")
    assert MASK in shown
    assert "a\\ss" not in shown
    assert "rd/1" not in shown


def test_the_word_after_the_scheme_is_masked_by_itself() -> None:
    read = secrets()
    read.fill({"secret": "token"})
    assert read.mask("your token abcdef123456 is bad") == f"your token {MASK} is bad"


def test_results_are_masked_in_keys_and_in_values() -> None:
    read = secrets()
    read.fill({"secret": "short"})
    assert read.mask_json({"xy": ["axyb", 3, None, {"k": "xy"}]}) == {
        MASK: [f"a{MASK}b", 3, None, {"k": MASK}]
    }
