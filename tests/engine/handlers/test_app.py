"""Functions and handlers of an app, the kinds that only wait, and processes that load an app."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import Definition, Run, RunState, State
from evenbeat.core.ops.explain import ExplanationContext, explain_job
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Database
from tests.conftest import START
from tests.engine.node_runner import Does, NodeRunner
from tests.support.processes import Process
from tests.support.waiting import eventually

NOW = Timetable(parse_schedule("now"))


@pytest.fixture
def app(settings: Settings, database: Database) -> Evenbeat:
    return Evenbeat(settings)


async def ran(node_runner: NodeRunner, app: Evenbeat, kind: str, payload: Any) -> Run:
    handler = app.registry.handlers[kind]
    async with node_runner.node(handler):
        jobs = Jobs(node_runner.database, app.registry)
        return await node_runner.closed(await jobs.add(Definition(kind, NOW, payload=payload)))


async def test_a_function_is_called_by_its_name_with_its_arguments(
    node_runner: NodeRunner, app: Evenbeat
) -> None:
    @app.function
    def add(a: int, b: int = 10) -> int:
        return a + b

    @app.function("of my own")
    async def named(context: RunContext, text: str) -> list[Any]:
        return [text, context.attempt]

    assert add(1) == 11, "a decorated function is still the function"
    one = await ran(node_runner, app, "function", {"name": "add", "args": {"a": 1}})
    two = await ran(node_runner, app, "function", {"name": "of my own", "args": {"text": "x"}})
    assert (one.result, two.result) == (11, ["x", 1])


@pytest.mark.parametrize(
    ("payload", "field", "why"),
    [
        ("add", "payload", "must be an object"),
        ({}, "payload.name", "must be the name"),
        ({"name": "nonesuch"}, "payload.name", "no function 'nonesuch' is registered"),
        ({"name": "add"}, "payload.args", "missing a required argument: 'a'"),
        ({"name": "add", "args": {"a": 1, "c": 2}}, "payload.args", "unexpected keyword"),
        ({"name": "add", "args": {"a": 1, "context": 2}}, "payload.args.context", "by the node"),
        ({"name": "add", "args": [1]}, "payload.args", "must be an object"),
        ({"name": "add", "kwargs": {}}, "payload.kwargs", "known: name, args"),
        (
            {"name": "add", "args": {"a": {"secret": "/"}}},
            "payload.args.a.secret",
            "must be a name",
        ),
    ],
)
async def test_a_call_that_can_never_work_is_refused_by_its_field(
    node_runner: NodeRunner, app: Evenbeat, payload: Any, field: str, why: str
) -> None:
    @app.function
    def add(a: int, context: RunContext) -> int:
        return a

    with pytest.raises(InvalidInput, match=why) as refused:
        await Jobs(node_runner.database, app.registry).add(Definition("function", NOW, payload))
    assert refused.value.errors[0].field == field


async def test_a_node_without_the_function_fails_the_run_and_another_may_have_it(
    node_runner: NodeRunner, app: Evenbeat
) -> None:
    app.function("other")(lambda: None)
    async with node_runner.node(app.registry.handlers["function"]):
        job = await node_runner.add(kind="function", payload={"name": "new"})
        run = await node_runner.closed(job)
    assert run.error == "no function 'new' is registered; registered: other"
    assert (await node_runner.find(job)).pulse.state is State.SCHEDULED


async def test_without_functions_their_jobs_wait_for_a_node_that_has_some(
    node_runner: NodeRunner, app: Evenbeat
) -> None:
    assert "function" in app.registry
    assert "function" not in app.registry.served
    app.function(len.__name__)(lambda text: len(text))
    assert "function" in app.registry.served


def test_a_name_and_a_kind_are_given_once(app: Evenbeat) -> None:
    app.function("twice")(lambda: None)
    app.handler("report")(lambda: None)
    with pytest.raises(InvalidInput, match="a function 'twice' already"):
        app.function("twice")(lambda: None)
    with pytest.raises(InvalidInput, match="a handler for report already"):
        app.handler("report")(lambda: None)


async def test_a_kind_of_ones_own_takes_the_payload_the_context_or_both(
    node_runner: NodeRunner, app: Evenbeat
) -> None:
    @app.handler("payload")
    async def takes_payload(payload: Any) -> Any:
        return payload

    @app.handler("context")
    async def takes_context(context: RunContext) -> Any:
        return [context.payload, context.cause, context.number, context.beat_at == START]

    @app.handler("both")
    def takes_both(text: Any, *, context: RunContext) -> Any:
        return [text, context.kind, str(context.job_uid), context.job_name, context.is_cancelled]

    @app.handler("nothing")
    def takes_nothing() -> str:
        return "nothing"

    assert (await ran(node_runner, app, "payload", {"a": 1})).result == {"a": 1}
    assert (await ran(node_runner, app, "context", [1])).result == [[1], "schedule", 1, True]
    both = await ran(node_runner, app, "both", "x")
    assert both.result == ["x", "both", str(both.job_uid), None, False]
    assert (await ran(node_runner, app, "nothing", None)).result == "nothing"


async def test_a_crawl_can_be_added_and_waits_and_is_explained(
    node_runner: NodeRunner, app: Evenbeat
) -> None:
    jobs = Jobs(node_runner.database, app.registry)
    payload = {"url": "https://example.org/", "source_id": "7", "metadata": {"a": 1}}
    async with node_runner.node(*app.registry.handlers.values()):
        crawl = await jobs.add(Definition("crawl", NOW, payload=payload))
        echo = await jobs.add(Definition("echo", NOW, payload="here"))
        assert (await node_runner.closed(echo)).result == "here"
        assert await node_runner.runs(crawl) == []
    assert (await node_runner.find(crawl)).pulse.state is State.PENDING
    # How many nodes serve a kind is what they said when they joined.
    serving = await node_runner.value(
        "select count(*) from evenbeat.node where 'crawl' = any(kinds)"
    )
    around = ExplanationContext(live_nodes=1, serving_nodes=serving)
    assert "No live node serves the kind crawl" in explain_job(crawl, START, around)
    async with node_runner.node(Does(Done(result="crawled"), kind="crawl")):
        assert (await node_runner.closed(crawl)).result == "crawled"


APP = """
import asyncio, os, threading
from evenbeat.app import Evenbeat

eb = Evenbeat()
not_an_app = 3

@eb.handler("report")
async def report(payload):
    return {"for": payload["who"], "place": str(eb.settings.data_dir)}

@eb.handler("add")
async def add(context):
    from evenbeat.core.jobs.model import Definition
    from evenbeat.core.time.schedules import parse_schedule
    from evenbeat.core.time.timetable import Timetable
    timetable = Timetable(parse_schedule("now"))
    job = await eb.jobs.add(Definition("report", timetable, {"who": "added"}))
    return str(job.uid)

@eb.handler("immortal")
async def immortal():
    while True:
        try:
            await asyncio.to_thread(threading.Event().wait)
        except BaseException:
            continue

@eb.function
def count(text):
    return len(text)
"""


@pytest.fixture
def app_file(tmp_path: Path) -> Path:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "jobs.py").write_text(APP)
    (package / "broken.py").write_text("import nonesuch\n")
    return package


async def test_a_worker_serves_the_app_that_it_is_told_of(
    start: Callable[..., Process], app_file: Path, node_runner: NodeRunner
) -> None:
    worker = start("worker", "--data-dir", "chosen", EVENBEAT_APP="shop.jobs:eb")
    await worker.ready()
    run = await node_runner.closed(await node_runner.add(kind="report", payload={"who": "me"}))
    assert run.result == {"for": "me", "place": "chosen"}
    call = {"name": "count", "args": {"text": "four"}}
    run = await node_runner.closed(await node_runner.add(kind="function", payload=call))
    assert run.result == 4
    added = (await node_runner.closed(await node_runner.add(kind="add"))).result
    ended = "select count(*) from evenbeat.run join evenbeat.job on job.id = run.job_id"
    where = f"{ended} where job.uid::text = $1 and run.state = 'c'"
    await eventually(lambda: node_runner.value(where, added), "the run of the added job")
    assert await worker.stop() == 0


async def test_a_process_ends_in_time_whatever_its_handlers_leave_behind(
    start: Callable[..., Process], app_file: Path, node_runner: NodeRunner
) -> None:
    worker = start(
        "worker",
        EVENBEAT_APP="shop.jobs:eb",
        EVENBEAT_DRAIN_TIMEOUT="0s",
        EVENBEAT_STOP_GRACE="100ms",
    )
    await worker.ready()
    job = await node_runner.add(kind="immortal")
    # The database shows the run as started a moment before its handler begins.
    await worker.says("Executing job")
    assert await worker.stop() == 0
    [run] = await node_runner.runs(job)
    assert run.state is RunState.CANCELLED
    assert "the node stopped; it ignores" in (run.reason or "")
    assert "Evenbeat has stopped" in worker.output


@pytest.mark.parametrize(
    ("app", "why"),
    [
        ("shop.nonesuch:eb", "app: there is no module 'shop.nonesuch'"),
        ("nonesuch:eb", "app: there is no module 'nonesuch'"),
        ("shop.jobs:other", "app: the module 'shop.jobs' has no 'other'"),
        ("shop.jobs:not_an_app", "shop.jobs:not_an_app is of type int, and not an Evenbeat"),
        ("shop.jobs", "app: write package.module:name, not 'shop.jobs'"),
        ("shop.broken:eb", "No module named 'nonesuch'"),
    ],
)
async def test_an_app_that_cannot_be_found_is_told_at_once(
    start: Callable[..., Process], app_file: Path, app: str, why: str
) -> None:
    worker = start("worker", EVENBEAT_APP=app)
    assert await worker.ended() == 1
    assert why in " ".join(worker.output.split())
    assert ("Traceback" in worker.output) is (app == "shop.broken:eb")


async def test_a_secret_variable_is_no_setting(start: Callable[..., Process]) -> None:
    shown = start("config", "-o", "json", EVENBEAT_SECRET_KEY="canary-that-nobody-may-see")
    assert await shown.ended() == 0
    assert "canary" not in shown.output
    assert "app" in {each["setting"] for each in json.loads(shown.output)}
