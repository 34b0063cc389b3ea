"""Which kinds there are."""

import pytest

from evenbeat.core.errors import InvalidInput
from evenbeat.core.registry import Registry
from evenbeat.handlers import built_in
from evenbeat.handlers.echo import Echo


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


def test_every_built_in_handler_has_a_kind_of_its_own() -> None:
    assert list(Registry(built_in())) == sorted(handler.kind for handler in built_in())
