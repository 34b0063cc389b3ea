"""Programs that tests need besides Evenbeat: pgbouncer, faketime and curl."""

import os
import shutil
from pathlib import Path

import pytest

PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def program(name: str, package: str) -> Path:
    """The program's path. Without it a test is skipped; in CI it fails."""
    found = shutil.which(name, path=PLACES)
    if found is None:
        why = f"needs {name}: `apt install {package}`, which ./dev does by itself for root"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    return Path(found)
