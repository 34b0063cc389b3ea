"""Which of our files run between the answer to a claim and the recorded end of the run."""

import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from evenbeat import Evenbeat
from evenbeat.config import Settings
from evenbeat.core.jobs.model import RunState
from evenbeat.engine.node import loop_forever
from evenbeat.engine.runs.claimer import Claimer
from evenbeat.store.database.pool import Database
from evenbeat.store.runs.completions import WrittenRuns, complete_runs
from evenbeat.store.runs.leases import claim_due
from tests.engine.node_runner import NodeRunner
from tests.support.databases import Clock

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "evenbeat"
SECTION = re.compile(r"<!-- way: running a job -->\n(.*?)<!-- end -->", re.DOTALL)
# Every floor may log, count, trace and read settings. A package is a list of imports.
UNCOUNTED = ("observe/", "config.py")
MOST_FILES = 9


class RunTrace:
    """Notes the files whose functions run for one run: not those of the node's other loops.

    It begins when a claim has returned jobs with their definitions. The claimer's part is over
    when it has started them, and the rest when the recorder has written their ends.
    """

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._is_begun = False
        self._has_claimer_ended = False
        self._is_over = False

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if event == "return" and isinstance(value, list) and value and code is claim_due.__code__:
            self._is_begun = True
            return
        if not self._is_begun or self._is_over or event not in ("call", "return"):
            return
        path = Path(code.co_filename)
        if path.is_relative_to(SOURCE) and self._belongs_to_run(frame):
            self.files.add(path.relative_to(SOURCE).as_posix())
        # A coroutine that waits returns a future for the moment.
        if event == "return" and isinstance(value, int):
            self._has_claimer_ended |= code is Claimer._claim.__code__
        if event == "return" and isinstance(value, WrittenRuns):
            self._is_over |= code is complete_runs.__code__

    def _belongs_to_run(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if Path(frame.f_code.co_filename).is_relative_to(ROOT / "tests"):
                return False
            if frame.f_code is loop_forever.__code__:
                return frame.f_locals["name"] == "claimer" and not self._has_claimer_ended
            frame = frame.f_back
        return True


@contextmanager
def traced() -> Iterator[RunTrace]:
    trace = RunTrace()
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(None)


def files_in_the_book(heading: str) -> set[str]:
    """The files that ARCHITECTURE.md lists under this heading of the way of a run."""
    section = SECTION.search((ROOT / "ARCHITECTURE.md").read_text())
    assert section is not None
    _, _, after = section[1].partition(f"**{heading}**")
    listed, _, _ = after.partition("**")
    return set(re.findall(r"^\d*[-.] `([\w/]+\.py)`", listed, re.MULTILINE))


def counted(files: set[str]) -> set[str]:
    return {file for file in files if not file.startswith(UNCOUNTED) and "__init__" not in file}


EVERY_RUN, EVERY_STATEMENT, NEXT_BEAT = (
    files_in_the_book(heading)
    for heading in ("Every run", "Every statement", "The next beat of a recurring job")
)


@pytest.fixture
async def node_runner(database: Database, settings: Settings) -> AsyncIterator[NodeRunner]:
    """With a node that serves an `async def` under `@eb.handler`."""
    eb = Evenbeat(settings)

    @eb.handler("work")
    async def work(payload: dict[str, Any]) -> None:
        assert payload == {"page": 7}

    node_runner = NodeRunner(database, settings)
    async with node_runner.node(eb.registry.handlers["work"]):
        yield node_runner


async def test_a_one_off_job_runs_through_the_files_that_architecture_md_lists(
    node_runner: NodeRunner,
) -> None:
    # The first run numbers the parameters of the statements; later ones find them done.
    await node_runner.closed(await node_runner.add(payload={"page": 7}))
    with traced() as trace:
        run = await node_runner.closed(await node_runner.add(payload={"page": 7}))
    assert run.state is RunState.COMPLETED
    assert counted(trace.files) == EVERY_RUN | EVERY_STATEMENT
    assert len(EVERY_RUN) <= MOST_FILES


async def test_a_recurring_job_runs_through_the_same_files_and_those_of_its_schedule(
    node_runner: NodeRunner, clock: Clock
) -> None:
    await node_runner.closed(await node_runner.add(payload={"page": 7}))
    job = await node_runner.add("every 1h", payload={"page": 7})
    with traced() as trace:
        await clock.advance(hours=1)
        run = await node_runner.closed(job)
    assert run.state is RunState.COMPLETED
    assert counted(trace.files) == EVERY_RUN | EVERY_STATEMENT | NEXT_BEAT
