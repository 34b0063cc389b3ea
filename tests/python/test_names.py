"""What `from evenbeat import …` gives, and what it costs."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import evenbeat

STUB = Path(evenbeat.__file__).with_suffix(".pyi")
# Modules that a process which only adds jobs must not load.
HEAVY = ("fastapi", "starlette", "uvicorn", "typer", "evenbeat.web", "evenbeat.testing")


def test_the_types_are_of_the_names() -> None:
    typed = {
        (alias.asname, node.module)
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == set(evenbeat._HOMES.items())


@pytest.mark.parametrize("name", evenbeat.__all__)
def test_every_name_is_the_thing_itself(name: str) -> None:
    assert getattr(evenbeat, name) is getattr(import_module(evenbeat._HOMES[name]), name)
    assert name in dir(evenbeat)


def test_a_name_that_is_not_there_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'evenbeat' has no attribute 'Evenbaet'"):
        evenbeat.Evenbaet  # noqa: B018


def loaded_by(line: str) -> set[str]:
    show = f"{line}\nimport sys; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    return set(shown.stdout.split())


def test_importing_the_package_loads_nothing_of_it() -> None:
    assert not [name for name in loaded_by("import evenbeat") if name.startswith("evenbeat.")]


def test_an_app_loads_neither_faces_nor_balancing() -> None:
    loaded = loaded_by("from evenbeat import Evenbeat, Portal, define, Done; Evenbeat()")
    assert not loaded & set(HEAVY)
