"""What handlers say by `context.log` is kept with their run, whatever sort of handler it is."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from evenbeat.core.jobs.model import Run, RunState
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import DONE
from evenbeat.core.runs.run_log import MOST_LINES, NO_MORE, LogLine
from evenbeat.engine.runs import run_log_writer
from evenbeat.engine.runs.run_log_writer import RunLogWriter
from evenbeat.handlers.function import FunctionHandler
from evenbeat.observe import log
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.runs import run_logs, runs
from tests.engine.node_runner import Does, DoesAtOnce, NodeRunner
from tests.support.cutting_proxy import cutting_proxy
from tests.support.waiting import PATIENCE, eventually

ONCE = {"max_attempts": 1}


async def ran(node_runner: NodeRunner, handler: Any) -> Run:
    async with node_runner.node(handler):
        return await node_runner.closed(await node_runner.add(policy=ONCE))


async def said(node_runner: NodeRunner, run: Run) -> list[tuple[str, str]]:
    lines = await runs.list_log_lines(node_runner.database, run.id, after=0, limit=10_000)
    return [(line.level, line.message) for line in lines]


@contextlib.asynccontextmanager
async def altered(node_runner: NodeRunner, change: str, back: str) -> AsyncGenerator[None]:
    await node_runner.fetch(change)
    try:
        yield
    finally:
        await node_runner.fetch(back)


@contextlib.asynccontextmanager
async def held_up(
    node_runner: NodeRunner, session: Any
) -> AsyncGenerator[Callable[[], Awaitable[int]]]:
    """Nobody can write lines; gives a way to see whether anybody tries to."""
    waiting = (
        "select count(*) from pg_locks"
        " where relation = 'evenbeat.run_log'::regclass and not granted"
    )
    async with session.transaction():
        await session.execute("lock table evenbeat.run_log in access exclusive mode")
        yield lambda: node_runner.value(waiting)


def in_a_thread(context: RunContext) -> None:
    context.log("begun")
    context.log("half-way", "debug")
    raise ValueError("enough")


async def on_the_loop(context: RunContext) -> None:
    in_a_thread(context)


@pytest.mark.parametrize("function", [in_a_thread, on_the_loop])
async def test_whoever_sees_the_end_of_a_run_sees_all_that_it_said(
    node_runner: NodeRunner, function: Any
) -> None:
    run = await ran(node_runner, FunctionHandler("work", function))
    # Not eventually: the end comes last.
    assert await said(node_runner, run) == [("info", "begun"), ("debug", "half-way")]
    assert run.error == "ValueError: enough"


async def test_a_handler_that_never_waits_is_heard_soon(node_runner: NodeRunner) -> None:
    handler = DoesAtOnce(lambda context: context.log("at once") or DONE)
    async with node_runner.node(handler):
        run = await node_runner.closed(await node_runner.add(policy=ONCE))
        lines = await eventually(lambda: said(node_runner, run), "the line")
    assert lines == [("info", "at once")]


async def test_secrets_are_masked_and_what_cannot_be_stored_is_replaced(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_KEY", "open-sesame")

    async def tell(context: RunContext) -> None:
        context.log(f"the key is {context.secrets['key']}\x00\ud800", "warning")

    run = await ran(node_runner, FunctionHandler("work", tell))
    assert await said(node_runner, run) == [("warning", "the key is (secret)\ufffd?")]


async def test_so_many_lines_are_kept_and_it_is_told_that_there_were_more(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log_writer, "LARGEST_BATCH", 300)

    async def chatter(context: RunContext) -> None:
        for number in range(MOST_LINES + 10):
            context.log(str(number))

    lines = await said(node_runner, await ran(node_runner, FunctionHandler("work", chatter)))
    assert [message for _, message in lines] == [*map(str, range(MOST_LINES)), NO_MORE]


async def test_a_level_that_there_is_not_is_refused_by_name(node_runner: NodeRunner) -> None:
    run = await ran(node_runner, Does(lambda context: context.log("x", "loud")))
    assert run.error == "InvalidInput: level: must be one of debug, info, warning, error"


async def test_lines_that_could_not_be_written_are_written_afterwards(
    node_runner: NodeRunner,
) -> None:
    run = await ran(node_runner, Does(DONE))
    async with cutting_proxy(node_runner.database.url) as proxy:
        far = Database(proxy.url, clock="set", pool_size=2)
        await far.open()
        pen = RunLogWriter(far)
        for number in range(3):
            pen.take(LogLine(run.id, "info", f"mark {number}"))
        proxy.cut_on("mark 0", "request")
        await pen.write()
        assert (proxy.cuts, await said(node_runner, run)) == (1, [])
        pen.take(LogLine(run.id, "info", "mark 3"))
        await pen.write()
        await far.close()
    assert [message for _, message in await said(node_runner, run)] == [
        f"mark {number}" for number in range(4)
    ]


@pytest.mark.parametrize("error", [None, "ValueError: too bad"])
async def test_a_run_that_has_ended_stays_so_while_its_lines_are_written(
    node_runner: NodeRunner, other_session: Any, error: str | None
) -> None:
    def work(context: RunContext) -> str:
        context.log("nearly there")
        if error:
            raise ValueError("too bad")
        return "done"

    async with node_runner.node(FunctionHandler("work", work)):
        async with held_up(node_runner, other_session) as is_waiting:
            job = await node_runner.add(policy=ONCE)
            await eventually(is_waiting, "a line that waits")
            await node_runner.cancel(job)
            run = await node_runner.closed(job)
        state = RunState.FAILED if error else RunState.COMPLETED
        assert (run.state, run.error) == (state, error)
        assert run.result == (None if error else "done")
        assert len(await eventually(lambda: said(node_runner, run), "the line")) == 1


async def test_a_line_that_the_database_does_not_take_is_lost_alone_and_told(
    node_runner: NodeRunner,
) -> None:
    async def work(context: RunContext) -> str:
        for word in ("one", "wicked", "two", "three"):
            context.log(word)
        return "done"

    rule = "alter table evenbeat.run_log add constraint no_evil check (message <> 'wicked')"
    with capture_logs() as told:
        async with altered(
            node_runner, rule, "alter table evenbeat.run_log drop constraint no_evil"
        ):
            run = await ran(node_runner, FunctionHandler("work", work))
    assert (run.state, run.result) == (RunState.COMPLETED, "done")
    assert [message for _, message in await said(node_runner, run)] == ["one", "two", "three"]
    [lost] = [line for line in told if line["event"] == log.LINES_LOST]
    assert lost["lines"] == 1
    assert "no_evil" in lost["reason"]


async def test_runs_end_though_nothing_can_be_written_and_their_lines_wait(
    node_runner: NodeRunner,
) -> None:
    async def work(context: RunContext) -> str:
        context.log("who hears me?")
        return "done"

    async with node_runner.node(FunctionHandler("work", work)):
        async with altered(
            node_runner,
            "alter table evenbeat.run_log rename to run_log_away",
            "alter table evenbeat.run_log_away rename to run_log",
        ):
            done = [await node_runner.closed(await node_runner.add(policy=ONCE)) for _ in range(2)]
        assert [run.state for run in done] == [RunState.COMPLETED, RunState.COMPLETED]
        for run in done:
            lines = await eventually(partial(said, node_runner, run), "the line")
            assert lines == [("info", "who hears me?")]


async def test_whoever_waits_while_a_batch_cannot_be_written_waits_no_longer(
    node_runner: NodeRunner, other_session: Any
) -> None:
    run, pen = await ran(node_runner, Does(DONE)), RunLogWriter(node_runner.database)
    pen.take(LogLine(run.id, "info", "first"))
    async with held_up(node_runner, other_session) as is_waiting:
        first = asyncio.ensure_future(pen.write())
        await eventually(is_waiting, "a line that waits")
        pen.take(LogLine(run.id, "info", "second"))
        others = [asyncio.ensure_future(pen.write()) for _ in range(5)]
        await node_runner.fetch(
            "select pg_cancel_backend(pid) from pg_locks"
            " where relation = 'evenbeat.run_log'::regclass and not granted"
        )
        await asyncio.wait_for(asyncio.gather(first, *others), PATIENCE)
        assert not await is_waiting(), "none of them has begun again"
    await pen.write()
    assert [message for _, message in await said(node_runner, run)] == ["first", "second"]


async def test_a_batch_is_written_though_who_asked_for_it_is_told_to_stop(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, pen = await ran(node_runner, Does(DONE)), RunLogWriter(node_runner.database)
    reached, go, append = asyncio.Event(), asyncio.Event(), run_logs.append

    async def append_later(session: Session, lines: Sequence[LogLine]) -> None:
        reached.set()
        await go.wait()
        await append(session, lines)

    monkeypatch.setattr(run_logs, "append", append_later)
    pen.take(LogLine(run.id, "info", "heard"))
    asking = asyncio.ensure_future(pen.write())
    await reached.wait()
    asking.cancel()
    await asyncio.wait([asking])
    go.set()
    # Nobody asks again.
    assert await eventually(lambda: said(node_runner, run), "the line") == [("info", "heard")]


async def test_a_batch_is_bounded_by_its_length_as_well(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log_writer, "LONGEST_BATCH", 10)
    run, pen = await ran(node_runner, Does(DONE)), RunLogWriter(node_runner.database)
    for message in ("12345", "12345", "1", "a line that is longer than all", "1"):
        pen.take(LogLine(run.id, "info", message))
    await pen.write()
    batches = await node_runner.fetch(
        "select count(*) from evenbeat.run_log group by xmin order by min(id)"
    )
    assert [count for [count] in batches] == [2, 1, 1, 1]


@pytest.mark.parametrize("limit", ["MOST_WAITING", "LONGEST_WAITING"])
async def test_where_too_many_wait_the_last_are_lost_and_counted(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(run_log_writer, limit, 3)
    run, pen = await ran(node_runner, Does(DONE)), RunLogWriter(node_runner.database)
    for number in range(5):
        pen.take(LogLine(run.id, "info", str(number)))
    with capture_logs() as told:
        await pen.write()
    assert {"lines": 2, "reason": run_log_writer.FULL}.items() <= told[-1].items()
    pen.take(LogLine(run.id, "info", "5"))
    await pen.write()
    assert [message for _, message in await said(node_runner, run)] == ["0", "1", "2", "5"]


async def test_what_makes_up_a_batch_is_written_without_being_asked_for(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log_writer, "LARGEST_BATCH", 3)
    run, pen = await ran(node_runner, Does(DONE)), RunLogWriter(node_runner.database)
    await pen.write()

    def speak() -> None:
        for number in range(7):
            pen.take(LogLine(run.id, "info", str(number)))

    async def are_six() -> bool:
        return len(await said(node_runner, run)) == 6

    await asyncio.to_thread(speak)
    await eventually(are_six, "two batches")
    await pen.write()
    assert [message for _, message in await said(node_runner, run)] == list("0123456")
