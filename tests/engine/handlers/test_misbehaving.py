"""Functions that hang, return nonsense, log too much or do not stop: every run ends correctly."""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.config import Settings
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import ErrorClass, RunState, State
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Cancelled, Done, Failed, HandedBack
from evenbeat.core.runs.registry import Registry
from evenbeat.engine.node import run as run_node
from evenbeat.handlers.function import FunctionHandler
from tests.engine.node_runner import Does, DoesAtOnce, NodeRunner
from tests.support.waiting import eventually

ONCE = {"max_attempts": 1}
SHORT = {"max_attempts": 1, "timeout": timedelta(seconds=1)}
SOON = timedelta(milliseconds=200)
RESTING = "select count(*) from evenbeat.pulse where token is null"
WORKS = Does(Done(), kind="well")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Torn(SyntaxError):
    """Python's own formatter stumbles over it."""

    lineno = property(lambda self: {}["x"])  # type: ignore[assignment]


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Releases, at the end of the test, handlers that would hang for ever."""
    event = threading.Event()
    yield event
    event.set()


def in_thread_and_on_loop(action: Callable[[], Any]) -> list[Any]:
    """The same misdeed twice: in a thread, and as a coroutine."""

    def plain(payload: Any) -> Any:
        return action()

    async def on_loop(payload: Any) -> Any:
        return action()

    return [plain, on_loop]


def raising(error: BaseException) -> Callable[[], Any]:
    def act() -> None:
        raise error

    return act


def recurse() -> int:
    return recurse() + 1


MISDEEDS: dict[str, tuple[Callable[[], Any], str]] = {
    "raises": (raising(ValueError("out of order")), "ValueError: out of order"),
    "sys.exit": (lambda: sys.exit("bye"), "SystemExit: bye"),
    "no words": (raising(Mute()), "Mute, which cannot say why"),
    "no trace": (raising(Torn("odd")), "Torn"),
    "StopIteration": (raising(StopIteration(3)), "StopIteration"),
    "GeneratorExit": (raising(GeneratorExit()), "GeneratorExit"),
    "CancelledError": (raising(asyncio.CancelledError()), "CancelledError"),
    "recursion": (recurse, "RecursionError"),
    "NaN": (lambda: float("nan"), "result: must be a finite number"),
    "a set": (lambda: {1, 2}, "result: is not JSON: set"),
    "an object": (lambda: object(), "result: is not JSON: object"),
    "NUL": (lambda: "a\x00", "result: contains the character NUL"),
    "what only nodes say": (lambda: HandedBack(), "returned HandedBack"),
    "100 MB": (lambda: "x" * 100_000_000, "result: has 100000002 bytes"),
    "a long error": (raising(ValueError("x" * 10_000_000)), "ValueError: xxx"),
}


@pytest.mark.parametrize("where", [0, 1], ids=["thread", "loop"])
@pytest.mark.parametrize("misdeed", MISDEEDS)
async def test_a_misdeed_fails_its_run_and_the_node_goes_on(
    node_runner: NodeRunner, misdeed: str, where: int
) -> None:
    action, error = MISDEEDS[misdeed]
    function = in_thread_and_on_loop(action)[where]
    async with node_runner.node(FunctionHandler("work", function), WORKS):
        job = await node_runner.add(policy=ONCE)
        run = await node_runner.closed(job)
        other = await node_runner.closed(await node_runner.add(kind="well"))
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
    assert error in (run.error or "")
    assert len(run.error or "") <= 10_000
    assert other.state is RunState.COMPLETED
    assert (await node_runner.find(job)).pulse.state is State.FAILED


async def test_ctrl_c_of_a_functions_own_making_fails_its_run(node_runner: NodeRunner) -> None:
    def act(payload: Any) -> None:
        raise KeyboardInterrupt

    async with node_runner.node(FunctionHandler("work", act), WORKS):
        run = await node_runner.closed(await node_runner.add(policy=ONCE))
        assert (
            await node_runner.closed(await node_runner.add(kind="well"))
        ).state is RunState.COMPLETED
    assert "raised KeyboardInterrupt" in (run.error or "")


async def test_a_thread_cannot_change_the_signals_of_the_process(node_runner: NodeRunner) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def act(payload: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    async with node_runner.node(FunctionHandler("work", act)):
        run = await node_runner.closed(await node_runner.add(policy=ONCE))
    assert run.state is RunState.FAILED
    assert "main thread" in (run.error or "")
    assert signal.getsignal(signal.SIGTERM) is before


async def test_a_stack_trace_shows_the_line_of_the_function(node_runner: NodeRunner) -> None:
    def deep_inside(payload: Any) -> None:
        raise ValueError("out of order")

    async with node_runner.node(FunctionHandler("work", deep_inside)):
        run = await node_runner.closed(await node_runner.add(policy=ONCE))
    assert "in deep_inside" in (run.stack_trace or "")
    assert (run.stack_trace or "").rstrip().endswith("ValueError: out of order")


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, None),
        ({"a": [1, None]}, {"a": [1, None]}),
        (0, 0),
        (False, False),
        (Done(result="whole"), "whole"),
    ],
)
async def test_what_a_function_returns_is_the_result(
    node_runner: NodeRunner, returned: Any, result: Any
) -> None:
    async with node_runner.node(FunctionHandler("work", lambda payload: returned)):
        run = await node_runner.closed(await node_runner.add())
    assert (run.state, run.result) == (RunState.COMPLETED, result)


async def test_a_function_may_speak_in_outcomes(node_runner: NodeRunner) -> None:
    outcomes = [Cancelled("not today"), Failed("never", is_final=True)]
    async with node_runner.node(FunctionHandler("work", lambda: outcomes.pop())):
        failed = await node_runner.closed(await node_runner.add(policy={"max_attempts": 5}))
        given_up = await node_runner.closed(await node_runner.add())
    assert (failed.state, failed.error) == (RunState.FAILED, "never")
    assert await node_runner.value("select count(*) from evenbeat.dead_letter") == 1
    assert (given_up.state, given_up.reason) == (RunState.CANCELLED, "not today")


async def test_an_awaitable_from_a_plain_function_is_awaited(node_runner: NodeRunner) -> None:
    async def hidden() -> str:
        return threading.current_thread().name

    async with node_runner.node(FunctionHandler("work", lambda payload: hidden())):
        run = await node_runner.closed(await node_runner.add())
    assert run.result == threading.main_thread().name


async def test_plain_functions_block_in_threads_and_coroutines_stay_on_the_loop(
    node_runner: NodeRunner,
) -> None:
    both = threading.Barrier(2, timeout=30)

    def blocks(context: RunContext) -> list[Any]:
        both.wait()
        return [threading.current_thread() is threading.main_thread(), context.attempt]

    async def waits(context: RunContext) -> bool:
        return threading.current_thread() is threading.main_thread()

    async with node_runner.node(FunctionHandler("work", blocks), FunctionHandler("other", waits)):
        jobs = [await node_runner.add() for _ in range(2)]
        other = await node_runner.closed(await node_runner.add(kind="other"))
        assert [(await node_runner.closed(job)).result for job in jobs] == [[False, 1]] * 2
    assert other.result is True


async def test_a_thread_that_ignores_its_timeout_is_told_of_as_it_is(
    node_runner: NodeRunner, release: threading.Event
) -> None:
    seen: list[bool] = []

    def hangs(context: RunContext) -> str:
        release.wait()
        seen.append(context.is_cancelled)
        return "too late"

    async with node_runner.node(FunctionHandler("work", hangs), WORKS, stop_grace=SOON):
        job = await node_runner.add(policy=SHORT)
        run = await node_runner.closed(job)
        assert (
            await node_runner.closed(await node_runner.add(kind="well"))
        ).state is RunState.COMPLETED
        release.set()
        await eventually(lambda: seen, "the thread's own end")
    assert seen == [True]
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.TIMEOUT)
    assert run.error == (
        "ran longer than 0:00:01; it ignores that it was told to stop, and still runs on its node"
    )
    assert run.result is None
    assert [each.state for each in await node_runner.runs(job)] == [RunState.FAILED]


async def test_a_thread_that_looks_whether_to_stop_ends_in_time(node_runner: NodeRunner) -> None:
    ended = threading.Event()

    def looks(context: RunContext) -> None:
        try:
            while True:
                context.check()
                time.sleep(0.01)
        finally:
            ended.set()

    async with node_runner.node(FunctionHandler("work", looks)):
        run = await node_runner.closed(await node_runner.add(policy=SHORT))
        assert ended.is_set(), "the run ends after its thread"
    assert run.error_class is ErrorClass.TIMEOUT
    assert run.error == "ran longer than 0:00:01"


async def test_a_function_that_finishes_within_the_grace_is_believed(
    node_runner: NodeRunner,
) -> None:
    def finishes(context: RunContext) -> str:
        while not context.is_cancelled:
            time.sleep(0.01)
        return "just in time"

    async with node_runner.node(FunctionHandler("work", finishes)):
        run = await node_runner.closed(await node_runner.add(policy=SHORT))
    assert (run.state, run.result) == (RunState.COMPLETED, "just in time")


async def test_a_coroutine_that_swallows_its_cancellation_is_given_up(
    node_runner: NodeRunner,
) -> None:
    leave, left = asyncio.Event(), asyncio.Event()

    async def stays(context: RunContext) -> str:
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue
        left.set()
        return "too late"

    async with node_runner.node(FunctionHandler("work", stays), WORKS, stop_grace=SOON):
        job = await node_runner.add(policy=SHORT)
        run = await node_runner.closed(job)
        assert (
            await node_runner.closed(await node_runner.add(kind="well"))
        ).state is RunState.COMPLETED
        leave.set()
        await left.wait()
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.TIMEOUT)
    assert "still runs on its node" in (run.error or "")
    assert len(await node_runner.runs(job)) == 1


async def test_what_fails_while_it_is_stopped_is_still_a_timeout(node_runner: NodeRunner) -> None:
    async def stumbles(context: RunContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while tidying up")

    async with node_runner.node(FunctionHandler("work", stumbles)):
        run = await node_runner.closed(await node_runner.add(policy=SHORT))
    assert (run.error_class, run.error) == (ErrorClass.TIMEOUT, "ran longer than 0:00:01")
    assert "while tidying up" in (run.stack_trace or "")


async def test_cancelling_a_job_that_will_not_end_closes_its_run(
    node_runner: NodeRunner, release: threading.Event
) -> None:
    async with node_runner.node(FunctionHandler("work", lambda: release.wait()), stop_grace=SOON):
        job = await node_runner.add()
        await node_runner.started(job)
        await node_runner.cancel(job)
        run = await node_runner.closed(job)
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.CANCELLED)
    assert "cancelled by hand; it ignores" in (run.reason or "")
    assert (await node_runner.find(job)).pulse.state is State.CANCELLED


@pytest.mark.parametrize("where", ["thread", "loop"])
async def test_a_node_stops_in_time_whatever_its_handlers_do(
    node_runner: NodeRunner, release: threading.Event, where: str
) -> None:
    leave, began = asyncio.Event(), threading.Event()

    def hangs() -> None:
        began.set()
        release.wait()

    async def stays() -> None:
        began.set()
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue

    function = hangs if where == "thread" else stays
    no_time = timedelta(0)
    handler = FunctionHandler("work", function)
    async with asyncio.timeout(20):
        async with node_runner.node(handler, drain_timeout=no_time, stop_grace=SOON):
            job = await node_runner.add()
            await eventually(began.is_set, "its start")
    leave.set()
    [run] = await node_runner.runs(job)
    assert (run.state, run.error_class) == (RunState.CANCELLED, ErrorClass.HANDED_BACK)
    assert "the node stopped; it ignores" in (run.reason or "")
    async with node_runner.node(Does(Done())):
        assert (await node_runner.closed(job, 2)).attempt == 1


async def test_a_node_that_is_cut_off_leaves_no_handler_running(
    node_runner: NodeRunner, settings: Settings
) -> None:
    began, tidied = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            tidied.set()

    registry, stopping = Registry([FunctionHandler("work", waits)]), asyncio.Event()
    running = asyncio.ensure_future(run_node(node_runner.database, registry, settings, stopping))
    await node_runner.add()
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(20):
        await tidied.wait()
    # Its lease ran out, or the next node takes it over.
    async with node_runner.node(Does(Done())):
        await eventually(lambda: node_runner.value(RESTING), "the job at rest")


async def test_what_lingers_keeps_its_place_but_never_more_than_half(
    node_runner: NodeRunner, release: threading.Event
) -> None:
    both, at_once = asyncio.Event(), list[int]()

    async def other(payload: int) -> None:
        at_once.append(payload)
        await both.wait()

    hangs, witness = (
        FunctionHandler("work", lambda: release.wait()),
        DoesAtOnce(Done(), kind="witness"),
    )
    handlers = (hangs, FunctionHandler("other", other), witness)
    async with node_runner.node(*handlers, stop_grace=SOON, concurrency=4):
        for _ in range(3):
            await node_runner.closed(await node_runner.add(policy=SHORT))
        jobs = [await node_runner.add(kind="other", payload=number) for number in range(3)]
        await eventually(lambda: len(at_once) == 2, "two of four places")
        # This claim would have taken the third job too, had there been a free slot.
        await node_runner.closed(await node_runner.add(kind="witness"))
        assert len(at_once) == 2
        both.set()
        for job in jobs:
            assert (await node_runner.closed(job)).state is RunState.COMPLETED


async def test_with_too_many_threads_lost_functions_fail_and_coroutines_go_on(
    node_runner: NodeRunner, release: threading.Event
) -> None:
    async def well() -> str:
        return "well"

    handlers = FunctionHandler("work", lambda: release.wait()), FunctionHandler("well", well)
    async with node_runner.node(*handlers, stop_grace=timedelta(0), concurrency=20):
        jobs = [await node_runner.add(policy=SHORT) for _ in range(20)]
        for job in jobs:
            assert (await node_runner.closed(job)).error_class is ErrorClass.TIMEOUT
        refused = await node_runner.closed(await node_runner.add(policy=ONCE))
        assert (await node_runner.closed(await node_runner.add(kind="well"))).result == "well"
        release.set()

        async def works_again() -> bool:
            job = await node_runner.add(policy=ONCE)
            return (await node_runner.closed(job)).state is RunState.COMPLETED

        await eventually(works_again, "threads that are free again")
    assert refused.error_class is ErrorClass.HANDLER_ERROR
    assert "20 functions of earlier runs ignore" in (refused.error or "")


def yields(payload: Any) -> Any:
    yield payload


async def yields_slowly(payload: Any) -> Any:
    yield payload


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (yields, "not yield"),
        (yields_slowly, "not yield"),
        (lambda one, two: None, "need nothing else"),
        (lambda *, key: None, "need nothing else"),
        (dict, "is a built-in without a signature"),
        ("text", "must be a function, not str"),
    ],
)
def test_what_can_never_be_called_is_refused_when_it_is_registered(function: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        FunctionHandler("work", function)
