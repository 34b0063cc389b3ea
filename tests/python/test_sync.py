"""The portal: an app for code without await, from any thread, in any process."""

import asyncio
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from evenbeat import Evenbeat, Filter, InvalidInput, Portal, RunState, State, define, sync
from evenbeat.config import Settings
from evenbeat.core.errors import MigrationFailed
from evenbeat.core.runs.run_export import RunFilter
from evenbeat.postgres import EmbeddedServer
from evenbeat.postgres.database import create_database, drop_database
from tests.support.processes import Process

PROGRAMS = Path(__file__).with_name("programs")
WORLD = (Path(__file__).parents[1] / "verify" / "world.sql").read_text()


def test_calls_wait_and_give_what_await_would_give(portal: Portal, app: Evenbeat) -> None:
    job = portal.jobs.add(define("echo", payload={"a": 1}))
    assert portal.jobs.get(job.uid) == job
    assert portal.jobs.pause(job.uid).pulse.state is State.PAUSED
    assert portal.enqueue("echo").is_new
    assert portal.call(app.enqueue, "echo", {"typed": True}).is_new
    assert portal.listing.page(Filter()).total == 3
    assert portal.settings is app.settings, "what is no coroutine is what it is"
    assert "pause" in dir(portal.jobs)


def test_what_comes_one_after_the_other_is_gone_through(
    portal: Portal, app: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill() -> None:
        async with app.database.connection() as connection:
            await connection.execute(WORLD)

    monkeypatch.setattr(sync, "AT_ONCE", 3)
    portal.call(fill)
    assert [each.run.id for each in portal.runs.export()] == list(range(1, 15))
    failed = RunFilter(states=frozenset([RunState.FAILED]))
    assert [each.run.id for each in portal.runs.export(failed)] == [5, 6, 7]
    left = portal.runs.export()
    assert next(left).run.id == 1
    left.close()
    begun = portal.runs.export()
    assert [next(begun).run.id for _ in range(3)] == [1, 2, 3]
    portal.close()
    with pytest.raises(RuntimeError, match="some items are missing"):
        next(begun)


def test_errors_come_through_as_they_are(portal: Portal) -> None:
    with pytest.raises(InvalidInput, match="nonesuch"):
        portal.enqueue("nonesuch")
    with pytest.raises(AttributeError):
        portal.nonesuch  # noqa: B018


def test_many_threads_share_it_and_it_opens_once(portal: Portal) -> None:
    uids: list[UUID] = []
    begin = threading.Barrier(8)

    def work() -> None:
        begin.wait()
        uids.extend([portal.enqueue("echo").uid for _ in range(10)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(uids)) == 80
    assert [each.name for each in threading.enumerate()].count("evenbeat-portal") == 1


async def test_it_refuses_to_hold_up_a_loop(portal: Portal) -> None:
    with pytest.raises(RuntimeError, match="await the app itself"):
        portal.enqueue("echo")
    job = await asyncio.to_thread(portal.enqueue, "echo")
    assert job.is_new, "a thread beside the loop may wait"
    await asyncio.to_thread(portal.close)


async def test_an_app_that_is_open_in_a_loop_is_not_taken_from_it(
    eb: Evenbeat, portal: Portal
) -> None:
    with pytest.raises(RuntimeError, match="open in another event loop"):
        await asyncio.to_thread(portal.open)
    assert (await eb.enqueue("echo")).is_new


def test_closed_it_opens_again_and_leaves_no_thread(portal: Portal, app: Evenbeat) -> None:
    with portal:
        jobs = portal.jobs
        portal.enqueue("echo")
    assert not app.is_open
    assert "evenbeat-portal" not in [each.name for each in threading.enumerate()]
    assert jobs.add(define("echo")).is_new
    assert portal.listing.page(Filter()).total == 2


def test_a_call_under_way_when_it_closes_ends(portal: Portal, app: Evenbeat) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def linger() -> None:
        begun.set()
        await asyncio.Event().wait()

    def work() -> None:
        with pytest.raises(CancelledError):
            portal.call(linger)
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    assert begun.wait(10)
    portal.close()
    assert ended.wait(10)


async def jobs_of(settings: Settings) -> list[Any]:
    assert settings.database_url is not None
    connection = await asyncpg.connect(settings.database_url.get_secret_value())
    rows = await connection.fetch("select payload ->> 'by' as by from evenbeat.job order by id")
    await connection.close()
    return [row["by"] for row in rows]


async def output_of(program: str, environ: dict[str, str], place: Path) -> str:
    command = (sys.executable, "-W", "error", PROGRAMS / f"{program}.py")
    process = Process("sync", environ=environ, cwd=place, program=command)
    assert await process.ended() == 0, process.output
    return process.output


async def test_a_process_that_just_ends_closes_it(
    settings: Settings, environ: dict[str, str], tmp_path: Path
) -> None:
    said = await output_of("just_ends", environ, tmp_path)
    assert "closed" in said
    assert "Error" not in said, said
    assert await jobs_of(settings) == ["main"]


async def test_a_dropped_iterator_does_not_make_the_loop_wait_for_itself(
    settings: Settings, environ: dict[str, str], tmp_path: Path
) -> None:
    assert await output_of("drops", environ, tmp_path) == "dropped\n"


async def test_a_fork_has_connections_of_its_own(
    settings: Settings, environ: dict[str, str], tmp_path: Path
) -> None:
    await output_of("forks", environ, tmp_path)
    assert await jobs_of(settings) == ["before", "child", "parent"]


async def test_with_the_embedded_server_it_is_taken_down_at_the_end(
    home: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    own = {name: value for name, value in environ.items() if "DATABASE" not in name}
    own |= {"EVENBEAT_DATA_DIR": str(home / "data"), "EVENBEAT_CLOCK": "database"}
    program = (sys.executable, PROGRAMS / "just_ends.py")
    process = Process("sync", "migrated", environ=own, cwd=tmp_path, program=program)
    assert await process.ended() == 0, process.output
    assert "PostgreSQL stopped" in process.output
    assert "Traceback" not in process.output


async def test_a_database_without_a_schema_says_what_to_do(
    postgres: EmbeddedServer, settings: Settings
) -> None:
    create_database("virgin", postgres.url("postgres"))
    app = Evenbeat(database_url=postgres.url("virgin"))
    try:
        with pytest.raises(MigrationFailed, match="run `evenbeat db migrate`"):
            async with app:
                pytest.fail("it must not open")
        assert not app.is_open
        with pytest.raises(MigrationFailed):
            await asyncio.to_thread(Portal(app).open)
        portal = Portal(app, migrated=True)
        assert (await asyncio.to_thread(portal.enqueue, "echo")).is_new
        await asyncio.to_thread(portal.close)
    finally:
        drop_database("virgin", postgres.url("postgres"))
