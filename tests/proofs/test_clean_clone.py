"""A clean clone works at once: with no environment, and with every Python that is promised."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = "/usr/bin/python3"
# Says its version, if it is a whole Python and not the stub of a version manager.
ASK = "import ensurepip, sys; print(*sys.version_info[:2], sep='.')"

pytestmark = pytest.mark.proof


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    place = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, place], check=True)
    return place


@pytest.mark.parametrize("name", [SYSTEM, "python3.11", "python3.12", "python3.13"])
def test_the_tests_of_a_clean_clone_pass_without_an_environment(name: str, clone: Path) -> None:
    python = find(name)
    if python is None:
        pytest.skip(f"there is no working {name}, 3.11 or newer, on this machine")
    ended = in_nothing(clone, python, "./dev", "test", "tests/core", "-q")
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert " passed" in ended.stdout
    again = in_nothing(clone, python, "./dev", "evenbeat", "--version")
    assert again.stdout.startswith("evenbeat "), "a second call has nothing to prepare and to say"
    untracked = ["git", "status", "--porcelain"]
    changed = subprocess.run(untracked, cwd=clone, capture_output=True, text=True, check=True)
    assert changed.stdout == "", "whatever ./dev makes is ignored by git"


def in_nothing(clone: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """As `env -i` runs it."""
    return subprocess.run(
        command,
        cwd=clone,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def find(name: str) -> str | None:
    """The first working Python of this name; of another version than its name it is not one."""
    for path in places(name):
        told = subprocess.run([path, "-c", ASK], capture_output=True, text=True, check=False)
        version = told.stdout.strip()
        if told.returncode or tuple(map(int, version.split("."))) < (3, 11):
            continue
        if name == SYSTEM or name == f"python{version}":
            return str(path)
    return None


def places(name: str) -> Iterator[str | Path]:
    found = shutil.which(name)
    if found is not None:
        yield found
    # pyenv puts only the chosen versions on the PATH, and stubs for the others.
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/*/bin/{name}"))
