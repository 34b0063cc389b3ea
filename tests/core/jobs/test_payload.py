"""Which JSON may be stored."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.payload import LARGEST_INTEGER, check_json
from evenbeat.core.limits import DEEPEST_JSON

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner))


class Degrees(float):
    """A float of another library, as numpy has it."""


class Point(NamedTuple):
    x: int
    y: int


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth - 1):
        value = [value]
    return value


@given(JSON)
def test_whatever_is_json_is_accepted_and_can_be_encoded(value: Any) -> None:
    check_json(value, "payload")
    assert orjson.loads(orjson.dumps(value)) == value


@pytest.mark.parametrize(
    ("value", "field", "why"),
    [
        ({"a": {"b": "\x00"}}, "payload.a.b", "NUL"),
        ({"a\x00": 1}, "payload", "NUL"),
        (["\ud800"], "payload[0]", "surrogate"),
        ({"\udc00": 1}, "payload", "surrogate"),
        ({1: "one"}, "payload", "key that is not text"),
        ([1, float("nan")], "payload[1]", "finite"),
        (float("-inf"), "payload", "finite"),
        (2**63, "payload", "64 bits"),
        (-(2**63), "payload", "64 bits"),
        ({1, 2}, "payload", "not JSON: set"),
        (b"bytes", "payload", "not JSON: bytes"),
        (datetime(2030, 1, 1, tzinfo=UTC), "payload", "not JSON: datetime"),
        (Point(1, 2), "payload", "not JSON: Point"),
        (Degrees(21.5), "payload", "not JSON: Degrees"),
        (nested(DEEPEST_JSON + 1), "payload", "nested deeper"),
    ],
)
def test_what_could_not_be_stored_is_refused_with_its_place(
    value: Any, field: str, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        check_json(value, "payload")
    assert refused.value.errors[0].field == field


def test_the_deepest_value_that_is_allowed_is_accepted() -> None:
    check_json(nested(DEEPEST_JSON), "payload")
    check_json((1, [2]), "payload")


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    with pytest.raises(InvalidInput, match="nested deeper"):
        check_json(endless, "payload")
