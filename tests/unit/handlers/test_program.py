"""The kind program: what it takes is checked, and no node serves it by itself."""

from typing import Any

import pytest

from evenbeat.config import load
from evenbeat.core.errors import InvalidInput
from evenbeat.handlers import built_in
from evenbeat.handlers.function import Function
from evenbeat.handlers.program import Program
from evenbeat.handlers.sql_function import SqlFunction

WHOLE = {
    "command": "cat",
    "shell": "/bin/sh",
    "stdin": "in\n",
    "user": "root",
    "env": {"PATH": "/bin"},
}


def test_it_is_known_and_not_served() -> None:
    registry = built_in(load(environ={}), Function(), SqlFunction())
    assert "program" in registry
    assert "program" not in registry.served


def test_all_that_cron_knew_is_accepted() -> None:
    Program().check(WHOLE)
    Program().check({"command": "cat"})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"command": ""}, "payload.command"),
        ({"command": ["cat"]}, "payload.command"),
        ({"stdin": 1}, "payload.stdin"),
        ({"env": {"A": 1}}, "payload.env"),
        ({"env": "A=1"}, "payload.env"),
        ({"cwd": "/"}, "payload.cwd"),
    ],
)
def test_what_could_never_run_names_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Program().check(WHOLE | change)
    assert [each.field for each in refused.value.errors] == [field]
