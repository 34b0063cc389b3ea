"""The import graph has no arrow up and no circle, and ARCHITECTURE.md shows it as it is."""

import pytest

from tests.house.import_graph import ROOT, Floor, floors

FLOORS = floors()


@pytest.mark.parametrize("floor", FLOORS, ids=lambda floor: floor.name)
def test_no_room_imports_from_above_or_in_a_circle(floor: Floor) -> None:
    assert floor.arrows_up == []
    assert floor.circles == []


def test_the_architecture_shows_the_graph_as_it_is() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    shown = [floor for floor in FLOORS if f"\n| {floor.name} |" in page]
    assert len(shown) == 5
    for floor in shown:
        figures = f"| {len(floor.rooms)} | {len(floor.arrows)} | 0 | 0 |"
        row = next(line for line in page.splitlines() if line.startswith(f"| {floor.name} |"))
        assert row.endswith(figures), f"{row} should end with {figures}"
