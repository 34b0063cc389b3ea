"""core/limits.py is the only place where the limits of what people may write stand as numbers."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenbeat.core import limits

SOURCE = Path(limits.__file__).parents[1]
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path != Path(limits.__file__)]
NAMES = {name for name in vars(limits) if name.isupper()}
BOUNDS = {"le", "lt", "max_length", "max"}
# Floors whose wire models and options bound what people write.
BOUNDED = ("api", "cli", "control")
# Below this a number says what a thing is, not how much of it is allowed: the states of a letter,
# the digits of a cursor.
FORMAT = 40


def assigned_names(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def literal_bounds(module: ast.Module) -> Iterator[tuple[int, int]]:
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg in BOUNDS:
            value = node.value
            if isinstance(value, ast.Constant) and type(value.value) in (int, float):
                yield value.lineno, value.value


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_other_module_has_a_limit_of_its_own(path: Path) -> None:
    module = ast.parse(path.read_text())
    assert NAMES.isdisjoint(assigned_names(module))
    if path.relative_to(SOURCE).parts[0] in BOUNDED:
        assert [each for each in literal_bounds(module) if each[1] > FORMAT] == []
