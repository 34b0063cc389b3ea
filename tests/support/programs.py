"""Programs that tests need besides ours: pgbouncer, faketime and curl, as Debian packages them."""

import os
import shutil
from pathlib import Path

import pytest

PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def program(name: str, package: str) -> Path:
    """Where it is; a test that needs it is skipped without it, but never in CI."""
    found = shutil.which(name, path=PLACES)
    if found is None:
        why = f"needs {name}: `apt install {package}`, which ./dev does by itself for root"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    return Path(found)
