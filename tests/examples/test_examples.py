"""Every example runs as it stands, as a process of its own on a real PostgreSQL."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from evenbeat import Evenbeat, Filter, Job
from evenbeat.config import Settings
from evenbeat.postgres import EmbeddedServer
from tests.conftest import START
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.suites import run_suite
from tests.support.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
Start = Callable[..., Process]


@pytest.fixture
def start_example(environ: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Starts a program of Python with these arguments; examples can be imported by name."""
    started: list[Process] = []

    def begin(*program: str, arguments: Sequence[str] = ("now",)) -> Process:
        own = environ | {"PYTHONPATH": str(EXAMPLES)}
        python = (sys.executable, "-u", *program)
        started.append(Process(*arguments, environ=own, cwd=tmp_path, program=python))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


@pytest.fixture
def app(settings: Settings) -> Evenbeat:
    return Evenbeat(settings)


async def jobs_of(eb: Evenbeat) -> dict[str | None, Job]:
    return {job.definition.name: job for job in (await eb.listing.page(Filter())).jobs}


async def results_of(eb: Evenbeat, job: Job) -> list[Any]:
    runs = (await eb.runs.of_job(job.uid)).runs
    return [run.result for run in runs if run.finished_at is not None]


async def address_of(process: Process, said: str) -> str:
    await process.says(said)
    found = re.search(rf"{said} (http://\S+)", process.output)
    assert found is not None
    return found[1]


async def test_a_script_with_three_scheduled_functions(
    start_example: Start, app: Evenbeat, clock: Clock
) -> None:
    script = start_example(str(EXAMPLES / "three_schedules.py"))
    await script.ready()
    async with app as eb:
        jobs = await jobs_of(eb)
        assert set(jobs) == {"heartbeat", "morning report", "clean_up"}
        # From noon on: ten minutes later, three o'clock at night, eight in Berlin.
        for name, due, result in (
            ("heartbeat", START + timedelta(minutes=10), "alive"),
            ("clean_up", START + timedelta(hours=15), "removed what is older than 30 days"),
            ("morning report", START + timedelta(hours=19), {"report for": "2030-01-02"}),
        ):
            assert jobs[name].pulse.due_at == due
            await clock.set_to(due)
            [*_, first] = await eventually(partial(results_of, eb, jobs[name]), name)
            assert first == result
    assert await script.stop() == 0
    assert "Evenbeat has stopped" in script.output


async def test_a_fastapi_application_that_runs_its_own_jobs(start_example: Start) -> None:
    served = start_example("-m", "uvicorn", arguments=["fastapi_app:app", "--port", "0"])
    url = await address_of(served, "Uvicorn running on")
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
        added = (await client.post("/pictures/cat.png")).json()

        async def look() -> Any:
            seen = (await client.get(f"/jobs/{added['job']}")).json()
            return seen if seen["results"] and seen["results"][0] else None

        seen = await eventually(look, "the thumbnail")
        assert seen["results"] == ["cat.png.small"]
        assert "Completed" in seen["explained"]
        unknown = await client.get("/jobs/01900000-0000-7000-8000-000000000000")
        assert unknown.status_code == 404
    # uvicorn ends by the signal that it was sent, once everything is in order.
    await served.stop()
    assert "Node left" in served.output
    assert "Application shutdown complete" in served.output


async def test_a_synchronous_program_and_its_worker(start_example: Start, app: Evenbeat) -> None:
    shop = str(EXAMPLES / "synchronous_shop.py")
    worker = start_example(shop, arguments=["work"])
    server = start_example(shop, arguments=["serve"])
    url = await address_of(server, "listening on")
    await worker.ready()
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
        for who in ("anna", "ben", "cleo"):
            assert (await client.post(f"/mails/{who}")).status_code == 200

        async def look() -> bool:
            return (await client.get("/jobs")).json() == {"completed": 3}

        await eventually(look, "three mails")
    async with app as eb:
        results = [
            result
            for job in (await eb.listing.page(Filter())).jobs
            for result in await results_of(eb, job)
        ]
    assert set(results) == {f"sent 6 characters to {who}" for who in ("anna", "ben", "cleo")}
    assert await worker.stop() == 0


async def test_jobs_in_the_users_transaction(start_example: Start, app: Evenbeat) -> None:
    async with app:
        await app.prepare_kinds()
    program = start_example(str(EXAMPLES / "transactional_enqueue.py"))
    assert await program.ended() == 0, program.output
    lines = program.output.splitlines()
    assert "a lamp is not paid" in lines
    assert "ordered: a book, a chair" in lines
    assert "to be shipped: a book, a chair" in lines


def test_a_test_suite_that_uses_the_kit(postgres: EmbeddedServer, tmp_path: Path) -> None:
    url = postgres.url("postgres")
    suite = EXAMPLES / "tested_shop"
    printed = run_suite(suite, f"--basetemp={tmp_path / 'suite'}", f"--evenbeat-database={url}")
    assert "3 passed" in printed
