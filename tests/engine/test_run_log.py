"""What handlers say by `context.log` is kept with their run, whatever sort of handler it is."""

from typing import Any

import pytest

from evenbeat.core.handler import RunContext
from evenbeat.core.model import Run, RunState
from evenbeat.core.outcome import DONE
from evenbeat.core.run_log import MOST_LINES, NO_MORE, LogLine
from evenbeat.engine import scribe
from evenbeat.engine.scribe import Scribe
from evenbeat.handlers.function import Called
from evenbeat.store import runs
from evenbeat.store.database import Database
from tests.engine.workshop import Does, DoesAtOnce, Workshop
from tests.support.cutting_proxy import cutting_proxy
from tests.support.waiting import eventually

ONCE = {"max_attempts": 1}


async def ran(workshop: Workshop, handler: Any) -> Run:
    async with workshop.node(handler):
        return await workshop.closed(await workshop.add(policy=ONCE))


async def said(workshop: Workshop, run: Run) -> list[tuple[str, str]]:
    lines = await runs.lines(workshop.database, run.id, after=0, limit=10_000)
    return [(line.level, line.message) for line in lines]


def in_a_thread(context: RunContext) -> None:
    context.log("begun")
    context.log("half-way", "debug")
    raise ValueError("enough")


async def on_the_loop(context: RunContext) -> None:
    in_a_thread(context)


@pytest.mark.parametrize("function", [in_a_thread, on_the_loop])
async def test_whoever_sees_the_end_of_a_run_sees_all_that_it_said(
    workshop: Workshop, function: Any
) -> None:
    run = await ran(workshop, Called("work", function))
    # Not eventually: the end comes last.
    assert await said(workshop, run) == [("info", "begun"), ("debug", "half-way")]
    assert run.error == "ValueError: enough"


async def test_a_handler_that_never_waits_is_heard_as_well(workshop: Workshop) -> None:
    run = await ran(workshop, DoesAtOnce(lambda context: context.log("at once") or DONE))
    assert await said(workshop, run) == [("info", "at once")]


async def test_secrets_are_masked_and_what_cannot_be_stored_is_replaced(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_KEY", "open-sesame")

    async def tell(context: RunContext) -> None:
        context.log(f"the key is {context.secrets['key']}\x00\ud800", "warning")

    run = await ran(workshop, Called("work", tell))
    assert await said(workshop, run) == [("warning", "the key is (secret)\ufffd?")]


async def test_so_many_lines_are_kept_and_it_is_told_that_there_were_more(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scribe, "LARGEST_BATCH", 300)

    async def chatter(context: RunContext) -> None:
        for number in range(MOST_LINES + 10):
            context.log(str(number))

    lines = await said(workshop, await ran(workshop, Called("work", chatter)))
    assert [message for _, message in lines] == [*map(str, range(MOST_LINES)), NO_MORE]


async def test_a_level_that_there_is_not_is_refused_by_name(workshop: Workshop) -> None:
    run = await ran(workshop, Does(lambda context: context.log("x", "loud")))
    assert run.error == "InvalidInput: level: must be one of debug, info, warning, error"


async def test_lines_that_could_not_be_written_are_written_afterwards(workshop: Workshop) -> None:
    run = await ran(workshop, Does(DONE))
    async with cutting_proxy(workshop.database.url) as proxy:
        far = Database(proxy.url, clock="set", pool_size=2)
        await far.open()
        pen = Scribe(far)
        for number in range(3):
            pen.take(LogLine(run.id, "info", f"mark {number}"))
        proxy.cut_on("mark 0", "request")
        await pen.write()
        assert (proxy.cuts, await said(workshop, run)) == (1, [])
        pen.take(LogLine(run.id, "info", "mark 3"))
        await pen.write()
        await far.close()
    assert [message for _, message in await said(workshop, run)] == [
        f"mark {number}" for number in range(4)
    ]


async def test_a_run_that_has_ended_stays_so_while_its_lines_are_written(
    workshop: Workshop, other_session: Any
) -> None:
    waiting = (
        "select count(*) from pg_locks"
        " where relation = 'evenbeat.run_log'::regclass and not granted"
    )

    def work(context: RunContext) -> str:
        context.log("nearly there")
        return "done"

    async with workshop.node(Called("work", work)):
        async with other_session.transaction():
            await other_session.execute("lock table evenbeat.run_log in access exclusive mode")
            job = await workshop.add(policy=ONCE)
            await eventually(lambda: workshop.value(waiting), "a line that waits")
            await workshop.cancel(job)
            run = await workshop.closed(job)
        assert (run.state, run.result) == (RunState.COMPLETED, "done")
        await eventually(lambda: said(workshop, run), "the line")
