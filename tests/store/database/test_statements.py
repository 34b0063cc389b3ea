"""The loader: from named statements to numbered ones."""

from collections.abc import Iterator

import pytest

from evenbeat.store.database import statements
from evenbeat.store.database.pool import order_values
from evenbeat.store.database.statements import load_statements, parse_statements

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
    assert order_values(first(), {"a": 1, "b": 2}) == [2, 1]


@pytest.mark.parametrize(
    ("given", "odd"),
    [({"a": 1}, "b"), ({"a": 1, "b": 2, "c": 3}, "c"), ({"a": 1, "b": 2, "now": 3}, "now")],
)
def test_a_missing_or_unknown_value_is_told_by_name(given: dict[str, object], odd: str) -> None:
    with pytest.raises(TypeError, match=f"statement first.*'{odd}'"):
        order_values(first(), given)


SHARED = """
-- fragment: is_live
job.deleted_at is null

-- fragment: is_named
:is_live and job.name is not null
"""


def given_files(monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    """As if the store had these files, and none of their statements were loaded yet."""
    monkeypatch.setattr(statements, "read_sql_file", files.__getitem__)
    load_statements.cache_clear()


@pytest.fixture
def no_statement_is_kept() -> Iterator[None]:
    """What these tests load must not be found by others under the same name."""
    yield
    load_statements.cache_clear()


@pytest.mark.usefixtures("no_statement_is_kept")
def test_a_fragment_of_the_shared_file_can_be_used_in_every_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = "-- name: count_named\nselect count(*) from evenbeat.job where :is_named;"
    given_files(monkeypatch, shared=SHARED, jobs=file)
    text = load_statements("jobs")["count_named"].text("database")
    assert text.endswith("where job.deleted_at is null and job.name is not null")


@pytest.mark.usefixtures("no_statement_is_kept")
def test_no_file_defines_a_shared_fragment_again(monkeypatch: pytest.MonkeyPatch) -> None:
    file = "-- fragment: is_live\ntrue\n\n-- name: count\nselect count(*);"
    given_files(monkeypatch, shared=SHARED, jobs=file)
    with pytest.raises(ValueError, match=r"jobs\.sql defines .* again: \['is_live'\]"):
        load_statements("jobs")


@pytest.mark.parametrize("sort", ["name", "fragment"])
def test_a_name_is_defined_once_in_a_file(sort: str) -> None:
    with pytest.raises(ValueError, match=f"the {sort} one is defined twice"):
        parse_statements(f"-- {sort}: one\nselect 1;\n\n-- {sort}: one\nselect 2;")
