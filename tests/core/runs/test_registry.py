"""Which kinds there are."""

from typing import Any

import pytest

from evenbeat.config import load
from evenbeat.core.errors import InvalidInput
from evenbeat.core.runs.registry import Registry
from evenbeat.handlers import built_in
from evenbeat.handlers.crawl import Crawl
from evenbeat.handlers.echo import Echo
from evenbeat.handlers.function import Function
from evenbeat.handlers.sql_function import SqlFunction


def test_a_handler_is_found_by_its_kind() -> None:
    echo = Echo()
    registry = Registry([echo])
    assert registry["echo"] is echo
    assert "echo" in registry
    assert "crawl" not in registry


def test_a_kind_has_exactly_one_handler() -> None:
    with pytest.raises(InvalidInput, match="a handler for echo already"):
        Registry([Echo(), Echo()])


def test_kinds_are_listed_in_order() -> None:
    class Other(Echo):
        kind = "another"

    assert list(Registry([Echo(), Other()])) == ["another", "echo"]


def test_a_kind_may_be_known_and_not_served() -> None:
    registry = Registry([Echo()], known=[Crawl()])
    assert list(registry) == ["crawl", "echo"]
    assert registry.served == ["echo"]
    registry["crawl"].check({"url": "https://example.org/"})
    with pytest.raises(KeyError):
        registry.handlers["crawl"]


def test_every_node_serves_echo_and_http_and_knows_the_rest() -> None:
    registry = built_in(load(environ={}), Function(), SqlFunction())
    assert registry.served == ["echo", "http"]
    assert list(registry) == ["crawl", "echo", "function", "http", "program", "sql_function"]


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ([], "payload"),
        ({}, "payload.url"),
        ({"url": "ftp://example.org/"}, "payload.url"),
        ({"url": "https://example.org/", "source_id": 3}, "payload.source_id"),
        ({"url": "https://example.org/", "metadata": []}, "payload.metadata"),
        ({"url": "https://example.org/", "depth": 3}, "payload.depth"),
    ],
)
def test_what_no_crawl_can_work_with_is_refused_by_its_field(payload: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Crawl().check(payload)
    assert refused.value.errors[0].field == field
