"""Runs a user's test suite with pytest, in a process of its own."""

import subprocess
import sys
from pathlib import Path

# Plugins that only our own tests need, and that take seconds to load.
OURS = ("schemathesis", "hypothesispytest", "xdist", "cacheprovider")


def run_suite(folder: Path, *arguments: str | Path) -> str:
    """What pytest prints; all tests must pass."""
    without = [part for name in OURS for part in ("-p", f"no:{name}")]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *without, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
