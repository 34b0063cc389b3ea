"""A run under way has one end, whatever happens while its lines are written."""

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


class RecordingServices(NodeServices):
    """Writes lines as the test says."""

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        super().__init__(None, 10)
        self._write = write

    def log(self, line: LogLine) -> None:
        """Nobody asks for it."""

    async def write_log(self) -> None:
        await self._write()


class Running:
    """A run whose handler says one line and is done."""

    def __init__(self, write: Callable[[], Awaitable[None]], grace: timedelta) -> None:
        job = claimed()
        self._end: asyncio.Future[EndedRun] = asyncio.get_running_loop().create_future()
        self.run = ActiveRun(
            job,
            grace=grace,
            toolbox=RecordingServices(write),
            on_ended=lambda _, ended: self._end.set_result(ended),
        )
        handler = FunctionHandler(job.definition.kind, speak)
        self.run.start(Registry([handler]), on_gone=lambda _: None)

    async def ended(self) -> EndedRun:
        return await asyncio.wait_for(self._end, PATIENCE)


async def speak(context: RunContext) -> str:
    context.log("done")
    return "done"


async def test_the_time_that_its_lines_take_is_not_the_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(active_run, "time", SimpleNamespace(monotonic=lambda: clock.now))

    async def write() -> None:
        clock.now = 100.0

    ended = await Running(write, timedelta(0)).ended()
    assert ended.duration == timedelta(0)


async def test_whatever_goes_wrong_after_its_handler_it_ends() -> None:
    async def write() -> None:
        raise LookupError("no pen")

    ended = await Running(write, timedelta(0)).ended()
    assert isinstance(ended.outcome, Failed)
    assert ended.outcome.error == "LookupError: no pen"


async def test_a_handler_that_has_returned_is_not_said_to_go_on() -> None:
    writes = asyncio.Event()

    async def write() -> None:
        writes.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # A pen that heeds only the second word.
            await asyncio.Event().wait()

    running = Running(write, timedelta(0))
    await writes.wait()
    running.run.stop(NODE_STOPS)
    ended = await running.ended()
    assert ended.outcome == Done(result="done")
    assert not running.run.is_abandoned
