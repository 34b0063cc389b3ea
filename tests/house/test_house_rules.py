"""Rules that the house keeps, checked on its own text."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evenbeat.cli.shell.printing import format_value
from evenbeat.config import Settings

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
LONGEST_FILE = 400
LONGEST_FUNCTION = 60


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LONGEST_FILE
    assert ast.get_docstring(ast.parse(text)), "a module says in one sentence what is in it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, node.name


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
    told = subprocess.run([ROOT / "dev", *arguments], capture_output=True, text=True, check=True)
    for verb in ("up", "test", "check", "prove", "bench", "docs"):
        assert f"  {verb} " in told.stdout


def test_dev_refuses_a_verb_it_does_not_know() -> None:
    told = subprocess.run([ROOT / "dev", "fly"], capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert "unknown verb 'fly'" in told.stderr


def test_every_python_has_an_environment_of_its_own() -> None:
    """One may be in use by a running `up` while another calls ./dev."""
    show = f"import runpy; print(runpy.run_path({str(ROOT / 'dev')!r})['VENV'])"
    pythons = {Path(sys.executable).resolve(), Path("/usr/bin/python3").resolve()}
    found = [subprocess.run([python, "-c", show], capture_output=True) for python in pythons]
    places = [told.stdout for told in found if told.returncode == 0]
    assert len(set(places)) == len(places) > 0
