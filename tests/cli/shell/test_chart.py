"""Bar charts: as long as they should be, to an eighth of a character."""

import pytest

from evenbeat.cli.shell.chart import Bar, draw, scale_bars


def test_the_largest_fills_the_width_and_the_others_their_share():
    assert scale_bars([4, 2, 1, 0], 4) == ["████", "██", "█", ""]


def test_parts_of_a_character_are_drawn():
    assert scale_bars([16, 1, 9], 2) == ["██", "▏", "█▏"]


def test_whatever_is_there_can_be_seen():
    assert scale_bars([10_000, 1], 10)[1] == "▏"


@pytest.mark.parametrize("values", [[], [0, 0]])
def test_nothing_is_drawn_of_nothing(values: list[float]):
    assert scale_bars(values, 10) == [""] * len(values)


def test_labels_stand_below_each_other_and_remarks_behind_the_bars(capsys):
    draw([Bar("a", 1, "one"), Bar("bcd", 2, "two", is_marked=True)])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("a    █")
    assert second.startswith("bcd  ██")
    assert first.index("one") == second.index("two")
