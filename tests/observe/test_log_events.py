"""The interval scheduler's log lines, word for word, in the log of a real process."""

import ast
import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evenbeat.config import Settings
from evenbeat.core.jobs.backoff import Exponential
from evenbeat.core.jobs.model import Job
from evenbeat.observe import log
from evenbeat.store.database.pool import Database
from tests.engine.node_runner import NodeRunner
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("programs") / "node.py"
FORMATS = ("console", "json")
Line = dict[str, str]
Start = Callable[..., Process]


@pytest.fixture
def node_runner(database: Database, settings: Settings) -> NodeRunner:
    return NodeRunner(database, settings)


@pytest.fixture
def node(environ: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def begin(**more: str) -> Process:
        program = (sys.executable, PROGRAM)
        started.append(Process("node", environ=environ | more, cwd=tmp_path, program=program))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


def lines(process: Process, event: str) -> list[Line]:
    return [line for line in map(read, process.output.splitlines()) if line["event"] == event]


def read(line: str) -> Line:
    """The fields of a line, of either format, as texts."""
    if line.startswith("{"):
        return {name: str(value) for name, value in json.loads(line).items()}
    found = re.fullmatch(r"(\S+) \[(\w+) *\] (.+?)(?:  +(.*))?", line)
    assert found is not None, line
    pairs = re.findall(r"(\w+)=('[^']*'|\"[^\"]*\"|\S+)", found[4] or "")
    fields = {name: value.strip("'\"") for name, value in pairs}
    return {"level": found[2], "event": found[3].strip(), **fields}


async def line_of(process: Process, event: str, job: Job | None = None) -> Line:
    def look() -> Line | None:
        wanted = job and str(job.uid)
        found = lines(process, event)
        return next((line for line in found if wanted in (None, line.get("job_id"))), None)

    return await eventually(look, f"{event!r} in:\n{process.output}")


def fields(line: Line, *names: str) -> list[str]:
    return [line[name] for name in names]


async def test_a_beat_is_told_with_where_the_next_one_comes(
    node: Start, node_runner: NodeRunner, clock: Clock
) -> None:
    process = node(EVENBEAT_LOG_FORMAT="json")
    job = await node_runner.add("every 1h phase=20m", kind="crawl", payload={"items": 1})
    await clock.advance(minutes=20)
    line = await line_of(process, "Rescheduled job (rhythm preserved)", job)
    assert fields(line, "level", "old_slot", "new_slot") == ["info", "12:15", "13:15"]


@pytest.mark.parametrize("log_format", FORMATS)
async def test_a_run_that_goes_well_is_told_from_its_start_to_its_end(
    log_format: str, node: Start, node_runner: NodeRunner
) -> None:
    process = node(
        EVENBEAT_LOG_FORMAT=log_format,
        EVENBEAT_CHECK_INTERVAL="10s",
        EVENBEAT_LEASE_DURATION="5m",
    )
    starting = await line_of(process, "Starting interval scheduler")
    assert fields(starting, "level", "check_interval", "lock_duration") == ["info", "10s", "5m"]
    job = await node_runner.add(
        kind="crawl", payload={"items": 25}, labels={"source_name": "example.com"}
    )
    executing = await line_of(process, "Executing job", job)
    wanted = ["info", "example.com", "0"]
    assert fields(executing, "level", "source_name", "retry_attempt") == wanted
    completed = await line_of(process, "Job completed successfully", job)
    assert fields(completed, "level", "items_crawled") == ["info", "25"]
    assert re.fullmatch(r"\d+(\.\d{1,3})?s", completed["duration"]), completed


@pytest.mark.parametrize("log_format", FORMATS)
async def test_a_run_that_fails_is_told_with_its_error_and_when_it_is_tried_again(
    log_format: str, node: Start, node_runner: NodeRunner, clock: Clock
) -> None:
    process = node(EVENBEAT_LOG_FORMAT=log_format)
    job = await node_runner.add(
        kind="crawl",
        name="example.org",
        payload={"error": "connection timeout"},
        policy={"max_attempts": 2, "backoff": Exponential(base=timedelta(seconds=120))},
    )
    failed = await line_of(process, "Job execution failed", job)
    wanted = ["error", "connection timeout", "120s"]
    assert fields(failed, "level", "error", "retry_in") == wanted
    await clock.advance(seconds=120)
    await eventually(lambda: len(lines(process, "Job execution failed")) == 2, process.output)
    again = lines(process, "Executing job")[1]
    assert fields(again, "source_name", "retry_attempt") == ["example.org", "1"]
    assert lines(process, "Job execution failed")[1]["retry_in"] == "None", "no attempt is left"


@pytest.mark.parametrize("log_format", FORMATS)
async def test_the_lock_of_a_dead_node_is_told_with_its_age(
    log_format: str, node: Start, node_runner: NodeRunner, clock: Clock
) -> None:
    doomed = node(EVENBEAT_LEASE_DURATION="1s")
    job = await node_runner.add(kind="crawl")
    await line_of(doomed, "Executing job", job)
    doomed.kill()
    await clock.advance(minutes=6)
    process = node(EVENBEAT_LOG_FORMAT=log_format)
    cleared = await line_of(process, "Cleared stale lock", job)
    assert fields(cleared, "level", "lock_age") == ["warning", "6m"]
    failed = await line_of(process, "Job execution failed", job)
    assert fields(failed, "error_class", "retry_in") == ["lost", "0s"]


async def test_no_line_of_a_run_is_written_where_only_warnings_are_wanted(
    node: Start, node_runner: NodeRunner
) -> None:
    process = node(EVENBEAT_LOG_LEVEL="warning")
    job = await node_runner.add(kind="crawl", payload={"items": 1})
    await node_runner.closed(job)
    process.signal(signal.SIGTERM)
    assert await process.ended() == 0
    assert process.output == ""


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(seconds=2.5), "2.5s"),
        (timedelta(seconds=120), "120s"),
        (timedelta(days=30), "2592000s"),
        (timedelta(microseconds=1234), "0.001s"),
        (timedelta(0), "0s"),
        (None, None),
    ],
)
def test_what_was_measured_is_told_in_seconds(length: timedelta | None, text: Any) -> None:
    assert log.format_seconds(length) == text


def test_every_event_is_documented() -> None:
    tree = ast.parse(Path(log.__file__).read_text())
    events = [
        node.value.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant)
    ]
    assert len(events) > 20
    documented = (ROOT / "docs" / "monitoring.md").read_text()
    assert [event for event in events if f"| {event} |" not in documented] == []
