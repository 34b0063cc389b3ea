"""ETags, If-Match and If-None-Match."""

import asyncio

import pytest
from pydantic import BaseModel
from starlette.requests import Request

from evenbeat.core.errors import Conflict, PreconditionFailed
from evenbeat.web.etags import is_etag_known, make_etag, read_if_match


class Out(BaseModel):
    status: str


def wanted(*values: str):
    headers = [(b"if-match", value.encode()) for value in values]
    return asyncio.run(read_if_match(Request({"type": "http", "headers": headers})))


def test_a_tag_changes_with_the_version_and_with_the_answer() -> None:
    tags = {make_etag(version, Out(status=word)) for version in (1, 2) for word in ("a", "b")}
    assert len(tags) == 4
    assert make_etag(1, Out(status="a")) == make_etag(1, Out(status="a"))


@pytest.mark.parametrize("values", [(), ("*",), (" * ",)])
def test_no_condition_allows_every_version(values: tuple[str, ...]) -> None:
    wanted(*values).check(7)


@pytest.mark.parametrize(
    "values",
    [
        ('"7"',),
        ('"7-5d41402abc4b2a76"',),
        ('"7-00"',),
        ('"6", "7"',),
        ('"6"', '"7-aa"'),
        (make_etag(7, Out(status="a")),),
    ],
)
def test_the_version_is_what_an_edit_is_held_to(values: tuple[str, ...]) -> None:
    wanted(*values).check(7)
    with pytest.raises(PreconditionFailed, match="version 8"):
        wanted(*values).check(8)


@pytest.mark.parametrize(
    "text", ['W/"7"', "7", '"x"', '"7', '"-7"', '"7x"', '"07.0"', '""', '"' + "9" * 500 + '"', "é"]
)
def test_what_is_no_strong_tag_of_ours_matches_nothing(text: str) -> None:
    with pytest.raises(PreconditionFailed):
        wanted(text).check(7)


def test_it_is_a_conflict_that_says_what_to_do() -> None:
    with pytest.raises(Conflict, match="read it again"):
        wanted('"6"').check(7)


def test_who_asks_for_news_compares_the_whole_tag() -> None:
    assert is_etag_known('"7-aa"', '"7-aa"')
    assert is_etag_known('"7-aa"', 'W/"7-aa", "x"')
    assert is_etag_known('"7-aa"', "*")
    assert not is_etag_known('"7-aa"', '"7-bb"')
    assert not is_etag_known('"7-aa"', '"7"')
    assert not is_etag_known('"7-aa"', "7-aa")
