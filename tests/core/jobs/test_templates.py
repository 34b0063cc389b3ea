"""Templates: blanks are filled in with what is given, and nothing is left blank."""

from typing import Any

import pytest

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.templates import Template

JOB: dict[str, Any] = {
    "kind": "http",
    "name": "look at ${site}",
    "payload": {"url": "https://${site}/", "depth": "${depth}", "paths": ["/${site}"]},
}


def template(**more: Any) -> Template:
    given: dict[str, Any] = {"job": JOB, "parameters": {"site": None, "depth": 2}} | more
    return Template("look-at", **given)


def test_blanks_are_filled_in_and_a_whole_one_keeps_its_type() -> None:
    made = template().fill_in({"site": "example.com"}, {})
    assert made["name"] == "look at example.com"
    payload = {"url": "https://example.com/", "depth": 2, "paths": ["/example.com"]}
    assert made["payload"] == payload


def test_what_is_said_beside_it_goes_before_the_template() -> None:
    made = template().fill_in({"site": "a", "depth": 5}, {"name": "mine", "priority": 7})
    assert (made["name"], made["priority"]) == ("mine", 7)
    assert made["payload"]["depth"] == 5


@pytest.mark.parametrize(
    ("given", "field"),
    [({}, "parameters.site"), ({"site": "a", "sight": 1}, "parameters.sight")],
)
def test_a_blank_that_is_not_filled_in_and_a_value_without_one_are_refused(
    given: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        template().fill_in(given, {})
    assert refused.value.errors[0].field == field


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"parameters": {"site": None}}, "parameters"),
        ({"parameters": {"site": None, "depth": 1, "more": 1}}, "parameters"),
        ({"parameters": {"Site": 1}}, "parameters.Site"),
        ({"description": "a\x00b"}, "description"),
        ({"description": "a" * 1001}, "description"),
        ({"job": {"payload": float("nan")}}, "job.payload"),
    ],
)
def test_a_template_that_could_never_be_filled_in_is_refused(
    more: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        template(**more)
    assert refused.value.errors[0].field == field


@pytest.mark.parametrize("name", ["", "a b", "ä", "-a", "a" * 101, "a/b"])
def test_a_name_is_fit_for_an_address(name: str) -> None:
    with pytest.raises(InvalidInput):
        Template(name, {})
