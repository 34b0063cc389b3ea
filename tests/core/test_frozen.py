"""Values of runs: like frozen dataclasses in all but what they cost to make."""

from dataclasses import field, replace

from evenbeat.core.frozen import frozen_value


@frozen_value
class Place:
    row: int
    seat: int = 1
    note: str = field(default="", compare=False)


def test_values_that_say_the_same_are_the_same() -> None:
    assert Place(3) == Place(3, 1, note="aisle") != Place(3, 2)
    assert {Place(3): "taken"}[Place(3)] == "taken"


def test_a_value_is_replaced_and_has_no_room_for_more() -> None:
    assert replace(Place(3), seat=2) == Place(3, 2)
    assert not hasattr(Place(3), "__dict__")
