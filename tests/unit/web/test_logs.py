"""Log lines: what a stack trace tells, and what it must not."""

import json
import subprocess
import sys

import pytest

CANARY = "canary-that-nobody-may-see"
FAIL = f"""
from evenbeat.config import Settings
from evenbeat.observe import log

log.configure(Settings(log_format={{log_format!r}}))

def connect(url):
    raise ValueError("no such host")

try:
    connect("postgresql://evenbeat:" + "-".join({CANARY.split("-")!r}) + "@localhost/evenbeat")
except ValueError as error:
    log.get_logger().error(log.REQUEST_FAILED, path="/api/v1/jobs", exc_info=error)
"""


def logged(log_format: str) -> str:
    script = FAIL.format(log_format=log_format)
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout == ""
    return ended.stderr


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_stack_trace_shows_no_values_of_variables(log_format: str) -> None:
    output = logged(log_format)
    assert "Request failed" in output
    assert "no such host" in output
    assert "connect" in output, "there is a stack trace"
    assert CANARY not in output


def test_a_line_of_json_is_one_event_with_its_fields() -> None:
    [line] = logged("json").splitlines()
    event = json.loads(line)
    assert (event["event"], event["level"]) == ("Request failed", "error")
    assert event["path"] == "/api/v1/jobs"
    assert event["timestamp"].endswith("Z")
