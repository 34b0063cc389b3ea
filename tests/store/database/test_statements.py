"""The loader: from named statements to numbered ones."""

import pytest

from evenbeat.store.database.statements import parse_statements

FILE = """
-- A word about the file: with :what? nothing is a parameter here.

-- name: first
-- Takes :nothing from this comment.
select :b, :a, :b::text, 'it''s :quoted', "col:umn"
from somewhere -- where :this is no parameter
where seen_at <= :now;

-- name: second
select 1;
"""


def first():
    return parse_statements(FILE)["first"]


def test_a_file_gives_its_statements_by_name() -> None:
    assert list(parse_statements(FILE)) == ["first", "second"]


def test_names_are_numbered_in_the_order_of_their_first_use() -> None:
    assert first().parameters == ("b", "a")
    assert first().text("database").splitlines()[1].startswith("select $1, $2, $1::text")


def test_casts_quotes_and_comments_are_left_alone() -> None:
    text = first().text("database")
    assert "::text" in text
    assert "'it''s :quoted'" in text
    assert '"col:umn"' in text
    assert ":nothing" in text
    assert ":this" in text


def test_the_last_semicolon_is_not_sent() -> None:
    assert not first().text("database").rstrip().endswith(";")


@pytest.mark.parametrize(
    ("clock", "reading"),
    [("database", "statement_timestamp()"), ("set", "evenbeat_clock.now()")],
)
def test_now_is_the_clock_and_no_parameter(clock: str, reading: str) -> None:
    assert "now" not in first().parameters
    assert f"seen_at <= {reading}" in first().text(clock)


def test_values_are_given_in_the_order_of_the_numbers() -> None:
    assert first().arguments({"a": 1, "b": 2}) == [2, 1]


@pytest.mark.parametrize(
    ("given", "odd"),
    [({"a": 1}, "b"), ({"a": 1, "b": 2, "c": 3}, "c"), ({"a": 1, "b": 2, "now": 3}, "now")],
)
def test_a_missing_or_unknown_value_is_told_by_name(given: dict[str, object], odd: str) -> None:
    with pytest.raises(TypeError, match=f"statement first.*'{odd}'"):
        first().arguments(given)
