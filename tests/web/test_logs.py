"""Log lines: what a stack trace shows, and what it must not show."""

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


def logged(log_format: str, program: str = FAIL) -> str:
    script = program.format(log_format=log_format)
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    assert ended.stdout == ""
    return ended.stderr


WARN = """
import logging
from evenbeat.config import Settings
from evenbeat.observe import log

log.configure(Settings(log_format={log_format!r}))
try:
    raise ConnectionRefusedError(111, "Connection refused")
except OSError:
    logging.getLogger("asyncpg.pool").warning("cannot connect; %s", "retrying", exc_info=True)
"""


def test_what_a_library_warns_of_is_one_line_of_ours_without_a_stack_trace() -> None:
    [line] = logged("console", WARN).splitlines()
    assert "Library message" in line
    assert "Connection refused" in line
    event = json.loads(logged("json", WARN))
    assert (event["event"], event["level"]) == ("Library message", "warning")
    assert (event["library"], event["message"]) == ("asyncpg.pool", "cannot connect; retrying")
    assert event["error"] == "[Errno 111] Connection refused"


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
