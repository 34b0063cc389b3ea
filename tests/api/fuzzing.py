"""Requests made up from the description of the API: schemathesis, against a real server."""

import os
import subprocess
import sys
from pathlib import Path

from evenbeat.core.ops.access import Role
from tests.support.serving import server_environ, serving, token_for

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
# All checks, with a few exceptions. A body that fits the schema may name a kind or a zone that
# there is not, and is refused. What stands where an id may stand as well is an id to the methods it
# does not have itself: they refuse it as no id, by 422 and not by 405. In the same way, what
# follows the key of a group may be a part of the key, since that may have slashes in it.
CONFIGURATION = """
[checks]
positive_data_acceptance.enabled = false

[[operations]]
include-path-regex = "^/api/v1/(jobs|dead-letters)/(actions|batch|groups|status-counts)$"
checks.unsupported_method.enabled = false
checks.allow_header_conformance.enabled = false

[[operations]]
include-path-regex = "^/api/v1/groups/[^/]+/(pause|resume)$"
checks.unsupported_method.enabled = false
checks.allow_header_conformance.enabled = false
"""


def fuzz(database_url: str, place: Path, *arguments: str) -> str:
    """What it says; empty if every answer was as the description has it."""
    # One caller sends everything, as fast as it can, and nobody runs the jobs that come of it.
    unhurried = {"EVENBEAT_RATE_LIMIT": "0", "EVENBEAT_READY_LAG": "1h"}
    environ = server_environ(database_url, place / "home") | unhurried
    (place / "schemathesis.toml").write_text(CONFIGURATION)
    with serving("server", environ, place) as url:
        done = subprocess.run(
            [
                *(SCHEMATHESIS, "run", f"{url}/openapi.json"),
                *("--header", f"Authorization: Bearer {token_for(Role.ADMIN)}"),
                *("--continue-on-failure", "--no-color", "--warnings", "off", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=place,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(place)},
        )
    return done.stdout if done.returncode else ""
