"""What goes wrong in a handler fails its run, is kept with it, and never stops the node."""

import asyncio
import sys
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from evenbeat.core.jobs.model import Cause, ErrorClass, RunState, State
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Cancelled, Done, Failed, HandedBack, Lost, Snoozed
from tests.conftest import START
from tests.engine.node_runner import Does, NodeRunner
from tests.support.databases import Clock

WORKS = Does(Done(), kind="well")
ONCE = {"max_attempts": 1}


class Rebellion(BaseException):
    """Not even an Exception."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Point(NamedTuple):
    x: int


def raising(error: BaseException) -> Does:
    def act(context: RunContext) -> None:
        raise error

    return Does(act)


async def test_a_failing_job_is_tried_again_by_its_backoff_and_then_failed(
    node_runner: NodeRunner, clock: Clock
) -> None:
    job = await node_runner.add(policy={"max_attempts": 4})
    async with node_runner.node(raising(ValueError("out of order"))):
        for number, wait in ((1, 60), (2, 120), (3, 240)):
            await node_runner.closed(job, number)
            pulse = (await node_runner.find(job)).pulse
            assert (pulse.state, pulse.retry_at) == (
                State.SCHEDULED,
                clock.now + timedelta(seconds=wait),
            )
            await clock.advance(seconds=wait)
        await node_runner.closed(job, 4)
    runs = await node_runner.runs(job)
    assert [run.attempt for run in runs] == [1, 2, 3, 4]
    assert [run.cause for run in runs] == [Cause.SCHEDULE, *[Cause.RETRY] * 3]
    assert {run.beat_at for run in runs} == {START}
    assert [(run.started_at - START).total_seconds() for run in runs] == [0, 60, 180, 420]
    for run in runs:
        assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
        assert run.error == "ValueError: out of order"
        assert "in act" in (run.stack_trace or "")
    pulse = (await node_runner.find(job)).pulse
    assert (pulse.state, pulse.due_at) == (State.FAILED, None)


@pytest.mark.parametrize(
    ("does", "error"),
    [
        pytest.param(Does(None), "returned NoneType, not an outcome", id="nothing"),
        pytest.param(Does({"a": 1}), "returned dict", id="a dict"),
        pytest.param(Does(HandedBack()), "returned HandedBack", id="what only nodes say"),
        pytest.param(Does(Lost()), "returned Lost", id="what only reapers say"),
        pytest.param(Does(Done(result=float("nan"))), "result: must be a finite", id="NaN"),
        pytest.param(
            Does(Done(result=["\x00"])),
            "result[0]: contains the character NUL",
            id="NUL in a result",
        ),
        pytest.param(Does(Done(result={1, 2})), "not JSON: set", id="a set"),
        pytest.param(Does(Done(result=Point(1))), "not JSON: Point", id="a named tuple"),
        pytest.param(Does(Done(items_crawled=2**40)), "items_crawled", id="too many items"),
        pytest.param(Does(Done(items_indexed="x")), "items_indexed", id="items that are text"),  # type: ignore[arg-type]
        pytest.param(Does(Failed("a\x00b\ud800c")), "a\ufffdb?c", id="NUL in an error"),
        pytest.param(Does(Failed(None)), "cannot be stored", id="an error that is None"),  # type: ignore[arg-type]
        pytest.param(Does(Failed("e", "odd")), "'odd' is not a valid", id="an odd class"),  # type: ignore[arg-type]
        pytest.param(Does(Snoozed("soon")), "cannot be stored", id="an odd delay"),  # type: ignore[arg-type]
        pytest.param(raising(ValueError("a\x00b\ud800c")), "ValueError: a\ufffdb", id="NUL raised"),
        pytest.param(raising(Mute()), "Mute, which cannot say why", id="an error without words"),
        pytest.param(raising(Rebellion("no")), "Rebellion: no", id="a BaseException"),
        pytest.param(raising(GeneratorExit()), "GeneratorExit", id="GeneratorExit"),
        pytest.param(Does(lambda context: sys.exit("bye")), "SystemExit: bye", id="sys.exit"),
        pytest.param(raising(asyncio.CancelledError()), "CancelledError", id="CancelledError"),
        pytest.param(raising(TimeoutError("of mine")), "TimeoutError: of mine", id="TimeoutError"),
        pytest.param(raising(ValueError("x" * 99_999)), "ValueError: xxx", id="a long error"),
    ],
)
async def test_whatever_a_handler_does_fails_its_run_and_the_node_goes_on(
    node_runner: NodeRunner, does: Does, error: str
) -> None:
    async with node_runner.node(does, WORKS):
        job = await node_runner.add(policy=ONCE)
        run = await node_runner.closed(job)
        other = await node_runner.closed(await node_runner.add(kind="well"))
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
    assert run.error is not None
    assert error in run.error
    assert len(run.error) <= 10_000
    assert other.state is RunState.COMPLETED
    assert (await node_runner.find(job)).pulse.state is State.FAILED


async def test_a_run_that_takes_longer_than_its_timeout_is_ended(node_runner: NodeRunner) -> None:
    async def wait_for_ever(context: RunContext) -> Done:
        await asyncio.Event().wait()
        return Done()

    async with node_runner.node(Does(wait_for_ever)):
        policy = {"timeout": timedelta(seconds=1), "max_attempts": 1}
        run = await node_runner.closed(await node_runner.add(policy=policy))
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.TIMEOUT)
    assert "longer than 0:00:01" in (run.error or "")
    assert run.duration is not None
    assert run.duration >= timedelta(seconds=1)


async def test_a_snoozed_run_comes_again_as_the_same_attempt(
    node_runner: NodeRunner, clock: Clock
) -> None:
    outcomes: list[Any] = [Done(), Snoozed(timedelta(minutes=5), "the site is closed")]
    async with node_runner.node(Does(lambda context: outcomes.pop())):
        job = await node_runner.add()
        first = await node_runner.closed(job)
        await clock.advance(minutes=5)
        second = await node_runner.closed(job, 2)
    assert (first.state, first.error_class) == (RunState.CANCELLED, ErrorClass.SNOOZED)
    assert first.reason == "the site is closed"
    assert (second.state, second.attempt, second.beat_at) == (RunState.COMPLETED, 1, START)


async def test_a_handler_gives_up_its_beat_but_not_the_job(
    node_runner: NodeRunner, clock: Clock
) -> None:
    async with node_runner.node(Does(Cancelled("not today", is_requested=True))):
        job = await node_runner.add("every 30m")
        await clock.advance(minutes=30)
        run = await node_runner.closed(job)
    assert (run.state, run.reason) == (RunState.CANCELLED, "not today")
    pulse = (await node_runner.find(job)).pulse
    assert (pulse.state, pulse.next_beat_at) == (State.SCHEDULED, START + timedelta(hours=1))


async def test_a_job_whose_definition_cannot_be_read_is_stopped_and_the_others_go_on(
    node_runner: NodeRunner,
) -> None:
    job = await node_runner.add()
    await node_runner.fetch(
        """update evenbeat.job set timetable = '{"schedule": {"every": "x"}}'"""
    )
    async with node_runner.node(Does(Done())):
        good = await node_runner.add()
        assert (await node_runner.closed(good)).state is RunState.COMPLETED
        run = await node_runner.closed(job)
    assert (run.state, run.number) == (RunState.FAILED, 1)
    assert "the definition cannot be read" in (run.error or "")
    assert (
        await node_runner.value("select due_at from evenbeat.pulse where id = $1", job.id) is None
    )


async def test_a_run_whose_consequences_cannot_be_told_stops_its_job_only(
    node_runner: NodeRunner, clock: Clock
) -> None:
    """A policy that reads well and then fails in use: its cap is no number."""
    bad = await node_runner.add("every 30m")
    await node_runner.fetch(
        """update evenbeat.job set policy = '{"catch_up": "all", "catch_up_cap": "many"}'"""
    )
    good = await node_runner.add("every 30m")
    await clock.advance(hours=5)
    async with node_runner.node(Does(Done())):
        assert (await node_runner.closed(good)).state is RunState.COMPLETED
        run = await node_runner.closed(bad)
    assert run.state is RunState.FAILED
    assert "cannot be said" in (run.error or "")


async def test_an_end_that_cannot_be_stored_fails_its_run_and_holds_up_no_other(
    node_runner: NodeRunner,
) -> None:
    """A table that is stricter than the runner knows: such a rule may come with any version."""
    await node_runner.fetch(
        "alter table evenbeat.run add constraint odd check (result <> '13') not valid"
    )
    try:
        gate = asyncio.Event()

        async def act(context: RunContext) -> Done:
            await gate.wait()
            return Done(result=context.payload)

        unlucky = await node_runner.add(payload=13, policy=ONCE)
        others = [await node_runner.add(payload=number) for number in range(5)]
        async with node_runner.node(Does(act)):
            for job in (unlucky, *others):
                await node_runner.started(job)
            gate.set()
            ends = [(await node_runner.closed(job)).state for job in others]
            run = await node_runner.closed(unlucky)
    finally:
        await node_runner.fetch("alter table evenbeat.run drop constraint odd")
    assert ends == [RunState.COMPLETED] * 5
    assert (run.state, run.result) == (RunState.FAILED, None)
    assert "cannot be stored" in (run.error or "")
