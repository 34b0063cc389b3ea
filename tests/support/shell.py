"""What a page of the documentation says to type, typed."""

import subprocess
from pathlib import Path

from tests.support.programs import program

# Seconds, for the busiest of machines.
LONGEST = 60


def typed(script: str, place: Path | None = None, **names: str) -> str:
    """What it prints; an answer of the API that is an error ends it."""
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
