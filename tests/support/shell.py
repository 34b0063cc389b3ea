"""Runs shell commands as a page of the documentation shows them."""

import subprocess
from pathlib import Path

from tests.support.programs import program

# Seconds; far more than needed, for a busy machine.
LONGEST = 60


def typed(script: str, place: Path | None = None, **names: str) -> str:
    """Run a script and return what it prints; an error of the API ends it."""
    program("curl", "curl")
    done = subprocess.run(
        ["sh", "-euc", script.replace("curl -s ", "curl -sS --fail-with-body ")],
        env={"PATH": "/usr/bin:/bin", "NO_PROXY": "*", **names},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
