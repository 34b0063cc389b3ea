"""The import graph of the house: rooms and arrows of every floor, counted from the code.

`python -m tests.house.import_graph [src/evenbeat]` prints the table that ARCHITECTURE.md shows.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "evenbeat"
# From the ground up. A room of a floor's own tools stands below its areas.
AREAS = ("time", "jobs", "runs", "balance", "ops")
Arrow = tuple[str, str]


@dataclass(frozen=True)
class Floor:
    """One floor: its rooms (folders, and files beside them) and the imports between these."""

    name: str
    rooms: frozenset[str]
    arrows: frozenset[Arrow]

    @property
    def arrows_up(self) -> list[Arrow]:
        """Imports from an area into one that is above it."""
        return sorted(
            (importer, imported)
            for importer, imported in self.arrows
            if importer in AREAS
            and imported in AREAS
            and AREAS.index(importer) < AREAS.index(imported)
        )

    @property
    def circles(self) -> list[frozenset[str]]:
        """Groups of rooms that import each other, directly or through others."""
        reached = {room: reachable(room, self.arrows) for room in self.rooms}
        groups = {
            frozenset(other for other in reached[room] if room in reached[other])
            for room in self.rooms
        }
        return [group for group in groups if len(group) > 1]


def reachable(start: str, arrows: frozenset[Arrow]) -> set[str]:
    found: set[str] = set()
    open_ends = [start]
    while open_ends:
        room = open_ends.pop()
        nexts = {imported for importer, imported in arrows if importer == room} - found
        found |= nexts
        open_ends += nexts
    return found


def floors(source: Path = SOURCE) -> list[Floor]:
    folders = sorted(path for path in source.iterdir() if (path / "__init__.py").is_file())
    return [floor_of(folder) for folder in folders]


def floor_of(folder: Path) -> Floor:
    name = f"evenbeat.{folder.name}"
    modules = {module_name(path, folder): path for path in folder.rglob("*.py")}
    rooms = {module.removeprefix(f"{name}.").split(".")[0] for module in modules if module != name}
    arrows: set[Arrow] = set()
    for module, path in modules.items():
        importer = room_of(module, name)
        for imported in imported_modules(path):
            target = room_of(imported, name)
            if importer and target in rooms and target != importer:
                arrows.add((importer, target))
    return Floor(folder.name, frozenset(rooms), frozenset(arrows))


def module_name(path: Path, folder: Path) -> str:
    parts = path.relative_to(folder.parent.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str, floor: str) -> str:
    """The room of a module on this floor; empty for the floor's own `__init__` and other floors."""
    return module.removeprefix(f"{floor}.").split(".")[0] if module.startswith(f"{floor}.") else ""


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def table(found: list[Floor]) -> str:
    rows = [
        f"| {floor.name} | {len(floor.rooms)} | {len(floor.arrows)} | {len(floor.arrows_up)} "
        f"| {len(floor.circles)} |"
        for floor in found
    ]
    head = "| floor | rooms | arrows | arrows up | circles |\n|---|---|---|---|---|"
    return "\n".join((head, *rows))


if __name__ == "__main__":
    print(table(floors(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)))
