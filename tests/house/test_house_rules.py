"""Rules about the source itself: sizes, names, rooms, comments and documents."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenbeat.cli.shell.printing import format_value
from evenbeat.config import Settings

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "evenbeat"
SOURCES = sorted(PACKAGE.rglob("*.py"))
SQL_FILES = sorted(PACKAGE.rglob("*.sql"))
LONGEST_FILE = 400
LONGEST_FUNCTION = 60

# The rooms of each floor: the areas, and a room of its own tools where it has one.
AREAS = {"jobs", "runs", "balance", "ops"}
ROOMS = {
    "core": AREAS | {"time"},
    "store": AREAS | {"database", "schema"},
    "control": AREAS,
    # What a node does for the balance is in its jobs (planner) and ops (janitor).
    "engine": AREAS - {"balance"},
    "cli": AREAS | {"shell"},
    "api/v1": AREAS | {"wire"},
}

# A comment names the actor: a node, a caller, a transaction, the client, PostgreSQL.
RIDDLE_WORD = re.compile(r"\b(?:whoever|whomever|somebody|nobody)\b", re.IGNORECASE)
# A function's name says what it returns or does: describe_refusal, find_stored_jobs.
VAGUE_NAMES = {"tell", "look"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def in_package(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def remarks_in(path: Path) -> Iterator[str]:
    """The comments of a file and, in Python, its docstrings."""
    text = path.read_text()
    if path.suffix == ".sql":
        yield from re.findall(r"--.*", text)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented):
            yield ast.get_docstring(node) or ""


def functions_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LONGEST_FILE
    assert ast.get_docstring(ast.parse(text)), "a module says in one sentence what is in it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, node.name


@pytest.mark.parametrize("path", SQL_FILES, ids=name_of)
def test_a_file_of_statements_can_be_read_in_one_sitting(path: Path) -> None:
    assert path.read_text().count("\n") <= LONGEST_FILE


def test_a_class_name_stands_for_one_thing() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(in_package(path))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


@pytest.mark.parametrize("floor", ROOMS)
def test_every_floor_has_the_same_areas_and_no_other_rooms(floor: str) -> None:
    rooms = {
        path.name
        for path in (PACKAGE / floor).iterdir()
        if path.is_dir() and path.name != "__pycache__"
    }
    assert rooms == ROOMS[floor]


def test_comments_name_the_actor() -> None:
    found = {
        in_package(path): riddles
        for path in (*SOURCES, *SQL_FILES)
        if (riddles := [each for each in remarks_in(path) if RIDDLE_WORD.search(each)])
    }
    assert found == {}


def test_a_function_is_named_after_what_it_does() -> None:
    vague = {in_package(path) for path in SOURCES if VAGUE_NAMES & set(functions_in(path))}
    assert vague == set()


def test_every_setting_is_documented_with_its_default() -> None:
    documented = (ROOT / "docs" / "reference" / "ops" / "settings.md").read_text()
    for name, field in Settings.model_fields.items():
        variable, default = f"EVENBEAT_{name.upper()}", format_value(field.default)
        row = f"| `{name}` | `{variable}` | {default} | {field.description} |"
        assert row in documented, f"docs/reference/ops/settings.md lacks: {row}"


def test_the_lock_has_hashes_and_names_no_index() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pinned = re.findall(r"^[a-z0-9-]+==", lock, re.MULTILINE)
    assert len(pinned) > 20
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", lock)) >= len(pinned)
    assert "://" not in lock
    assert "index" not in re.sub(r"#.*", "", lock)


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def test_ci_runs_the_command_of_the_readme() -> None:
    assert "./dev test" in (ROOT / ".ci" / "run").read_text()
    assert "./dev test" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("arguments", [["help"], ["-h"], []])
def test_dev_explains_itself(arguments: list[str]) -> None:
    result = subprocess.run([ROOT / "dev", *arguments], capture_output=True, text=True, check=True)
    for verb in ("up", "test", "check", "prove", "bench", "docs"):
        assert f"  {verb} " in result.stdout


def test_dev_refuses_a_verb_it_does_not_know() -> None:
    result = subprocess.run([ROOT / "dev", "fly"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "unknown verb 'fly'" in result.stderr


def test_every_python_has_an_environment_of_its_own() -> None:
    """A running `up` may use one environment while `./dev` makes another."""
    show = f"import runpy; print(runpy.run_path({str(ROOT / 'dev')!r})['VENV'])"
    pythons = {Path(sys.executable).resolve(), Path("/usr/bin/python3").resolve()}
    found = [subprocess.run([python, "-c", show], capture_output=True) for python in pythons]
    paths = [each.stdout for each in found if each.returncode == 0]
    assert len(set(paths)) == len(paths) > 0
