"""The test kit: handlers without a database, jobs on a clock that is moved, assertions."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenbeat import (
    Done,
    Evenbeat,
    Failed,
    InvalidInput,
    Portal,
    RunContext,
    RunState,
    Snoozed,
    State,
    define,
)
from evenbeat.core.jobs.backoff import Fixed
from evenbeat.testing.kit import Kit
from evenbeat.testing.perform import perform
from tests.support.suites import run_suite

START = datetime(2031, 3, 3, 12, tzinfo=UTC)


@pytest.fixture
def evenbeat_starts_at() -> datetime:
    return START


@pytest.fixture
def evenbeat_app() -> Evenbeat:
    return shop()


def shop() -> Evenbeat:
    eb = Evenbeat()

    @eb.handler("mail")
    async def mail(payload: Any) -> str:
        return f"to {payload['to']}"

    @eb.handler("order")
    async def order(payload: Any) -> None:
        await eb.enqueue("mail", {"to": payload["customer"], "about": {"order": 7, "sum": 10}})

    @eb.handler("fails")
    def fails(context: RunContext) -> str:
        if context.attempt < 3:
            raise ValueError(f"attempt {context.attempt}")
        return "at last"

    @eb.handler("snoozes")
    def snoozes(context: RunContext) -> Snoozed | Done:
        return Snoozed(timedelta(hours=1)) if context.number == 1 else Done()

    @eb.function
    def count(text: str) -> int:
        return len(text)

    return eb


def scheduled() -> Evenbeat:
    eb = shop()

    @eb.schedule("0 8 * * *", tz="Europe/Berlin")
    def daily(context: RunContext) -> str:
        assert context.beat_at is not None
        return context.beat_at.isoformat()

    return eb


async def test_a_handler_is_performed_without_a_database() -> None:
    eb = shop()
    assert await perform(eb, "mail", {"to": "me"}) == Done("to me")
    assert await perform(eb, "fails", attempt=3) == Done("at last")
    failed = await perform(eb, "fails", attempt=2)
    assert isinstance(failed, Failed)
    assert (failed.error, failed.error_type) == ("ValueError: attempt 2", "ValueError")
    assert "in fails" in (failed.stack_trace or "")
    assert not eb.is_open


async def test_what_is_performed_is_checked_as_a_job_would_be() -> None:
    with pytest.raises(InvalidInput, match=r"payload\.name"):
        await perform(shop(), "function", {"args": {}})
    with pytest.raises(InvalidInput, match="no handler in this app; served: echo, fails"):
        await perform(shop(), "nonesuch")


async def test_what_is_due_runs_here_and_so_does_what_follows(evenbeat_kit: Kit) -> None:
    async with evenbeat_kit as kit:
        await kit.app.enqueue("order", {"customer": "ACME"})
        await kit.assert_not_enqueued("mail")
        ordered, mailed = await kit.run_due()
        assert (ordered.state, mailed.result) == (RunState.COMPLETED, "to ACME")
        assert mailed.started_at == kit.clock.now == START
        assert await kit.run_due() == []
        job = await kit.assert_enqueued("mail", payload={"about": {"order": 7}})
        assert job.pulse.state is State.COMPLETED
        assert (await kit.app.verify()).breaches == ()


async def test_an_app_that_cannot_begin_is_closed_again(evenbeat_server: Any) -> None:
    eb = shop()

    @eb.schedule("0 8 * * *", name="x" * 1000)
    def nightly() -> None: ...

    url = evenbeat_server.new_database()
    with pytest.raises(InvalidInput, match="name"):
        async with Kit(eb, url):
            pytest.fail("it began")
    assert not eb.is_open
    evenbeat_server.drop(url)


async def test_an_assertion_that_fails_shows_what_is_there(evenbeat_kit: Kit) -> None:
    async with evenbeat_kit as kit:
        with pytest.raises(AssertionError, match=r"a job of kind 'mail'.*no jobs"):
            await kit.assert_enqueued("mail")
        await kit.app.enqueue("mail", {"to": "one"}, name="first")
        await kit.app.enqueue("mail", {"to": "two"})
        with pytest.raises(AssertionError, match=r"(?s)0 found among 2:.*mail first \{'to': 'one'"):
            await kit.assert_enqueued("mail", payload={"to": "three"})
        with pytest.raises(AssertionError, match=r"3 jobs of kind 'mail'.*; 2 found"):
            await kit.assert_enqueued("mail", count=3)
        with pytest.raises(AssertionError, match="no job of kind 'mail', payload"):
            await kit.assert_not_enqueued("mail", payload={"to": "two"})
        assert (await kit.assert_enqueued(count=2)).definition.payload == {"to": "two"}
        assert (await kit.assert_enqueued(name="first")).definition.payload == {"to": "one"}
        await kit.assert_not_enqueued("order")


async def test_functions_are_asserted_by_themselves(evenbeat_kit: Kit) -> None:
    @evenbeat_kit.app.function
    def other(text: str) -> str:
        return text

    async with evenbeat_kit as kit:
        await kit.app.enqueue(other, {"text": "x"})
        job = await kit.assert_enqueued(other, payload={"text": "x"}, count=1)
        assert job.definition.kind == "function"
        await kit.assert_not_enqueued(other, payload={"text": "y"})
        [run] = await kit.run_due()
        assert run.result == "x"


async def test_retries_and_snoozes_come_when_the_clock_is_moved(evenbeat_kit: Kit) -> None:
    async with evenbeat_kit as kit:
        backoff = Fixed(timedelta(minutes=5))
        job = await kit.app.jobs.add(define("fails", backoff=backoff, max_attempts=3))
        [first] = await kit.run_due()
        assert (first.state, first.error) == (RunState.FAILED, "ValueError: attempt 1")
        assert await kit.clock.move_by(minutes=4) == []
        second, third = await kit.clock.move_by(minutes=10)
        assert [run.started_at - START for run in (second, third)] == [
            timedelta(minutes=5),
            timedelta(minutes=10),
        ]
        assert third.result == "at last"
        assert [run.attempt for run in await kit.runs(job)] == [1, 2, 3]
        await kit.app.enqueue("snoozes")
        assert [run.reason is None for run in await kit.clock.move_by(hours=2)] == [True, True]


@pytest.mark.parametrize("evenbeat_app", [scheduled()])
async def test_beats_on_the_way_run_at_their_own_instants(evenbeat_kit: Kit) -> None:
    async with evenbeat_kit as kit:
        await kit.assert_enqueued("daily", name="daily")
        runs = await kit.clock.move_to(datetime(2031, 4, 3, 12, tzinfo=UTC))
        # A month in Berlin, with the beginning of summer time in it.
        assert [run.started_at.hour for run in runs] == [7] * 26 + [6] * 5
        assert all(run.result == run.started_at.isoformat() for run in runs)
        assert kit.clock.now == await kit.app.now()
        assert (await kit.app.verify()).breaches == ()


@pytest.mark.parametrize("evenbeat_app", [scheduled()])
async def test_a_set_clock_is_a_time_without_a_node(evenbeat_kit: Kit) -> None:
    async with evenbeat_kit as kit:
        await kit.clock.set_to(START + timedelta(days=3))
        [run] = await kit.run_due()
        assert run.cause == "catchup"
        [job] = await kit.jobs("daily")
        assert [each.skipped_count for each in await kit.runs(job)] == [None, 2]


async def test_the_clock_goes_forward_only(evenbeat_kit: Kit) -> None:
    async with evenbeat_kit as kit:
        with pytest.raises(InvalidInput, match="in the past"):
            await kit.clock.move_to(START - timedelta(seconds=1))
        with pytest.raises(InvalidInput, match="with an offset"):
            await kit.clock.move_to(datetime(2032, 1, 1))  # noqa: DTZ001


async def test_groups_are_kept_and_their_pace_too(evenbeat_kit: Kit) -> None:
    async with evenbeat_kit as kit:
        for _ in range(3):
            await kit.app.enqueue("echo", group={"key": "api", "rate": "1/m"})
        assert len(await kit.run_due()) == 1
        rest = await kit.clock.move_by(minutes=5)
        assert [run.started_at - START for run in rest] == [
            timedelta(minutes=1),
            timedelta(minutes=2),
        ]
        for _ in range(2):
            await kit.app.enqueue("echo", group={"key": "door", "max_running": 1})
        assert len(await kit.run_due()) == 2


async def test_a_handler_that_takes_too_long_is_stopped_by_its_timeout(evenbeat_kit: Kit) -> None:
    @evenbeat_kit.app.handler("hangs")
    async def hangs() -> None:
        await asyncio.Event().wait()

    async with evenbeat_kit as kit:
        await kit.app.enqueue("hangs", timeout="50ms", max_attempts=1)
        [run] = await kit.run_due()
        assert (run.state, run.error_class) == (RunState.FAILED, "timeout")


async def test_a_job_that_is_always_due_does_not_keep_a_test_for_ever(
    evenbeat_kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenbeat.testing.inline.MOST_RUNS", 20)
    monkeypatch.setattr("evenbeat.testing.clock.MOST_RUNS", 20)

    @evenbeat_kit.app.handler("again")
    async def again() -> None:
        await evenbeat_kit.app.enqueue("again")

    async with evenbeat_kit as kit:
        await kit.app.jobs.add(define("echo", "every 1s"))
        with pytest.raises(RuntimeError, match="go there in smaller steps"):
            await kit.clock.move_by(hours=1)
        await kit.app.enqueue("again")
        with pytest.raises(RuntimeError, match="due again at once"):
            await kit.run_due()


@pytest.mark.parametrize("turn", [1, 2])
async def test_no_test_sees_anything_of_another(evenbeat_kit: Kit, turn: int) -> None:
    async with evenbeat_kit as kit:
        assert await kit.jobs() == []
        job = await kit.app.enqueue("echo", {"turn": turn})
        assert job.id == 1


def test_a_test_without_await_has_it_all(evenbeat_kit: Kit) -> None:
    portal = Portal(evenbeat_kit.app)
    with evenbeat_kit.through(portal) as kit:
        portal.enqueue("mail", {"to": "me"})
        job = kit.assert_enqueued("mail", payload={"to": "me"})
        [run] = kit.run_due()
        assert run.result == "to me"
        assert kit.clock.move_by(hours=1) == []
        assert kit.clock.now == START + timedelta(hours=1)
        assert [each.id for each in kit.runs(job)] == [run.id]


async def test_a_kit_is_opened_first_and_takes_no_app_from_others(evenbeat_kit: Kit) -> None:
    with pytest.raises(RuntimeError, match="open the kit before"):
        await evenbeat_kit.run_due()
    async with evenbeat_kit as kit:
        with pytest.raises(RuntimeError, match="open already"):
            await Kit(kit.app, "postgresql://elsewhere/x").__aenter__()


async def test_an_app_never_goes_back_from_a_test_to_its_own_database(evenbeat_kit: Kit) -> None:
    app = Evenbeat(database_url="postgresql://real.example/shop")
    async with Kit(app, evenbeat_kit._database_url):
        assert "evenbeat_test" in app.database.url
    assert app.settings.database_url is not None
    assert "real" not in app.settings.database_url.get_secret_value()


PROJECT = """
def test_a_project_that_uses_none_of_it(pytestconfig):
    import sys
    assert pytestconfig.pluginmanager.has_plugin("evenbeat")
    assert [name for name in sys.modules if name.startswith("evenbeat")] == [
        "evenbeat", "evenbeat.testing", "evenbeat.testing.plugin"
    ]
    assert "asyncpg" not in sys.modules and "pydantic" not in sys.modules
"""


def test_projects_that_do_not_use_it_are_not_disturbed(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    assert "1 passed" in run_suite(tmp_path, "-p", "no:asyncio", tmp_path)


def test_the_url_of_a_server_can_be_given(
    postgres: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from evenbeat.testing.server import TestServer

    server = TestServer(tmp_path, postgres.url("postgres"))
    server.open()
    url = server.new_database()

    async def look() -> bool:
        async with Kit(shop(), url) as kit:
            return (await kit.app.enqueue("echo")).is_new

    assert asyncio.run(look())
    server.drop(url)
    server.close()
    assert postgres.pid is not None
