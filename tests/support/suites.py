"""Somebody's test suite, run by pytest as a process of its own."""

import subprocess
import sys
from pathlib import Path

# Plugins that only our own tests need, and that take seconds to load.
OURS = ("schemathesis", "hypothesispytest", "xdist", "cacheprovider")


def run_suite(folder: Path, *arguments: str | Path) -> str:
    """What pytest says of it; all tests must pass."""
    without = [part for name in OURS for part in ("-p", f"no:{name}")]
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *without, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout
