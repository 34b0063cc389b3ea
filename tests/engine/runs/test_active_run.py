"""A run ends exactly once, whatever happens while its log lines are written."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest

from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done, Failed
from evenbeat.core.runs.registry import Registry
from evenbeat.core.runs.run_log import LogLine
from evenbeat.engine.runs import active_run
from evenbeat.engine.runs.active_run import NODE_STOPS, ActiveRun
from evenbeat.engine.runs.handler_services import NodeServices
from evenbeat.engine.runs.recorder import EndedRun
from evenbeat.handlers.function import FunctionHandler
from tests.core.given import claimed
from tests.support.waiting import PATIENCE


class StubLog(NodeServices):
    """Stores lines by the function of the test."""

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        super().__init__(None, 10)
        self._write = write

    def log(self, line: LogLine) -> None:
        """Lines are not kept."""

    async def write_log(self) -> None:
        await self._write()


class Running:
    """A run whose handler logs one line and returns."""

    def __init__(self, write: Callable[[], Awaitable[None]], grace: timedelta) -> None:
        job = claimed()
        self._end: asyncio.Future[EndedRun] = asyncio.get_running_loop().create_future()
        self.run = ActiveRun(
            job,
            grace=grace,
            services=StubLog(write),
            on_ended=lambda _, ended: self._end.set_result(ended),
        )
        handler = FunctionHandler(job.definition.kind, speak)
        self.run.start(Registry([handler]), on_gone=lambda _: None)

    async def ended(self) -> EndedRun:
        return await asyncio.wait_for(self._end, PATIENCE)


async def speak(context: RunContext) -> str:
    context.log("done")
    return "done"


async def test_the_duration_of_a_run_leaves_out_the_time_for_its_log_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=0)
    monkeypatch.setattr(active_run, "time", SimpleNamespace(monotonic_ns=lambda: clock.now))

    async def write() -> None:
        clock.now = 100_000_000_000

    ended = await Running(write, timedelta(0)).ended()
    assert ended.duration == timedelta(0)


async def test_a_run_whose_log_lines_cannot_be_written_ends_as_failed() -> None:
    async def write() -> None:
        raise LookupError("no pen")

    ended = await Running(write, timedelta(0)).ended()
    assert isinstance(ended.outcome, Failed)
    assert ended.outcome.error == "LookupError: no pen"


async def test_a_run_whose_handler_has_returned_is_not_called_abandoned() -> None:
    writes = asyncio.Event()

    async def write() -> None:
        writes.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # Only a second cancellation ends this.
            await asyncio.Event().wait()

    running = Running(write, timedelta(0))
    await writes.wait()
    running.run.stop(NODE_STOPS)
    ended = await running.ended()
    assert ended.outcome == Done(result="done")
    assert not running.run.is_abandoned
