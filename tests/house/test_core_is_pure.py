"""`core` is pure: what import-linter cannot see in its imports is looked for in its text."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "src" / "evenbeat" / "core"
SOURCES = sorted(CORE.rglob("*.py"))

# The contract of handlers names what a node awaits.
MAY_AWAIT = {"runs/handler.py"}
# Reads the files of the time zones, as zoneinfo itself does.
MAY_READ_FILES = {"time/schedules/base/clock_changes.py"}
# Imports every kind of schedule that lies beside it.
MAY_IMPORT_BY_NAME = {"time/schedules/__init__.py"}

ASYNCHRONOUS = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
IO_FUNCTIONS = {"open", "print", "input", "breakpoint"}
FILE_METHODS = {"read_bytes", "read_text", "write_bytes", "write_text", "is_file", "exists"}
CLOCK_METHODS = {"now", "utcnow", "today"}
CHANCE = {"uuid1", "uuid4", "default_rng", "token_bytes", "urandom"}
IMPORTS_BY_NAME = {"__import__", "import_module"}


def name_of(path: Path) -> str:
    return path.relative_to(CORE).as_posix()


def find_impurities(text: str) -> Iterator[tuple[str, str]]:
    """Every impure thing that the text does: of what sort it is, and where."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ASYNCHRONOUS):
            yield "await", f"line {node.lineno}: {type(node).__name__}"
        elif isinstance(node, ast.comprehension) and node.is_async:
            yield "await", f"line {node.target.lineno}: async for"
        elif isinstance(node, ast.Call):
            name = name_of_function(node.func)
            for sort, names in (
                ("io", IO_FUNCTIONS),
                ("file", FILE_METHODS),
                ("clock", CLOCK_METHODS),
                ("chance", CHANCE),
                ("import", IMPORTS_BY_NAME),
            ):
                if name in names:
                    yield sort, f"line {node.lineno}: {name}()"


def name_of_function(function: ast.expr) -> str | None:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else None


def allowed_in(name: str) -> set[str]:
    exceptions = (
        ("await", MAY_AWAIT),
        ("file", MAY_READ_FILES),
        ("import", MAY_IMPORT_BY_NAME),
    )
    return {sort for sort, names in exceptions if name in names}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_core_neither_awaits_nor_reads_nor_asks_for_the_time(path: Path) -> None:
    allowed = allowed_in(name_of(path))
    found = [where for sort, where in find_impurities(path.read_text()) if sort not in allowed]
    assert found == []


@pytest.mark.parametrize("name", sorted(MAY_AWAIT | MAY_READ_FILES | MAY_IMPORT_BY_NAME))
def test_an_exception_is_one_that_is_needed(name: str) -> None:
    found = {sort for sort, _ in find_impurities((CORE / name).read_text())}
    assert found == allowed_in(name)


@pytest.mark.parametrize(
    ("sort", "text"),
    [
        ("await", "async def f(): ..."),
        ("await", "async def f():\n    return [x async for x in y]"),
        ("io", "with open('a') as file: ..."),
        ("io", "print('a')"),
        ("file", "text = path.read_text()"),
        ("clock", "at = datetime.now(UTC)"),
        ("clock", "day = date.today()"),
        ("chance", "uid = uuid.uuid4()"),
        ("chance", "generator = np.random.default_rng(1)"),
        ("import", "module = import_module(name)"),
    ],
)
def test_the_search_finds_what_it_is_there_for(sort: str, text: str) -> None:
    assert sort in {found for found, _ in find_impurities(text)}
