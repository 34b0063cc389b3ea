"""`@eb.schedule`: what the code declares is what is stored, over any number of deploys."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
import structlog

from evenbeat import Evenbeat, Filter, InvalidInput, Job, NotFound, RunContext
from evenbeat.observe import log
from tests.support.databases import Clock
from tests.support.waiting import eventually

Apps = Callable[[], Evenbeat]


async def deployed(app: Evenbeat) -> list[Job]:
    """The jobs once a process has started with this app, oldest first."""
    async with app:
        await app.prepare()
        return await stored(app)


async def stored(app: Evenbeat) -> list[Job]:
    return (await app.listing.page(Filter())).jobs[::-1]


def report() -> str:
    return "reported"


async def test_a_scheduled_function_is_a_handler_and_a_job_of_its_name(app: Evenbeat) -> None:
    assert app.schedule("0 8 * * MON-FRI", tz="Europe/Berlin")(report) is report
    [job] = await deployed(app)
    assert (job.definition.name, job.definition.kind) == ("report", "report")
    assert job.definition.timetable.describe().endswith("(Europe/Berlin)")
    assert job.definition.labels == {"declared_in": __name__}


async def test_what_is_said_of_the_job_is_what_is_stored(app: Evenbeat) -> None:
    said = app.schedule(
        "every 30m",
        name="half-hourly report",
        payload={"who": "ACME"},
        max_attempts=7,
        timeout="90s",
        catch_up="none",
        priority=20,
        labels={"team": "sales"},
        group={"key": "reports", "max_running": 2, "rate": "10/m"},
        runs_on=["gpu"],
        max_runs=5,
        window="08:00-18:00",
    )
    said(report)
    [job] = await deployed(app)
    written = job.definition
    assert (written.name, written.payload) == ("half-hourly report", {"who": "ACME"})
    assert (written.policy.max_attempts, written.policy.catch_up) == (7, "none")
    assert written.policy.timeout.total_seconds() == 90
    assert (written.priority, written.runs_on) == (20, ("gpu",))
    assert written.labels["team"] == "sales"
    assert written.group is not None
    assert written.group.key == "reports"
    assert written.timetable.bounds.max_runs == 5
    assert written.timetable.window is not None


async def test_a_deploy_of_the_same_code_changes_nothing(make_app: Apps, clock: Clock) -> None:
    def code() -> Evenbeat:
        app = make_app()
        app.schedule("every 1h")(report)
        return app

    [first] = await deployed(code())
    await clock.advance(minutes=20)
    assert await deployed(code()) == [first], "not even its rhythm"


async def test_another_schedule_in_the_code_is_another_one_of_the_same_job(make_app: Apps) -> None:
    old, new = make_app(), make_app()
    old.schedule("every 1h")(report)
    new.schedule("daily 06:00")(report)
    [before] = await deployed(old)
    [after] = await deployed(new)
    assert after.uid == before.uid
    assert after.definition.timetable.schedule.words() == "daily 06:00"


async def test_what_a_person_paused_stays_paused_over_a_deploy(make_app: Apps) -> None:
    old, new = make_app(), make_app()
    old.schedule("every 1h")(report)
    new.schedule("every 2h")(report)
    [job] = await deployed(old)
    async with old:
        await old.jobs.pause(job.uid)
    [after] = await deployed(new)
    assert after.pulse.state == "paused"


async def test_what_left_the_code_is_told_of_and_goes_on(make_app: Apps) -> None:
    old, new = make_app(), make_app()
    old.schedule("every 1h")(report)
    new.handler("other")(report)
    [job] = await deployed(old)
    with structlog.testing.capture_logs() as lines:
        assert await deployed(new) == [job]
    assert [line for line in lines if line["event"] == log.NOT_DECLARED] == [
        {
            "event": log.NOT_DECLARED,
            "log_level": "warning",
            "job_id": str(job.uid),
            "name": "report",
            "declared_in": __name__,
        }
    ]
    async with new, new.worker():
        assert "No live node serves the kind report" in await new.jobs.explain(job.uid)


async def test_jobs_of_other_code_are_left_alone(make_app: Apps) -> None:
    theirs, ours = make_app(), make_app()
    elsewhere: dict[str, Any] = {"__name__": "their.module"}
    exec("def their_report(): ...", elsewhere)
    theirs.schedule("every 1h")(elsewhere["their_report"])
    ours.schedule("every 1h")(report)
    await deployed(theirs)
    with structlog.testing.capture_logs() as lines:
        assert len(await deployed(ours)) == 2
    assert log.NOT_DECLARED not in [line["event"] for line in lines]


async def test_a_handler_and_a_function_can_be_scheduled_more_than_once(app: Evenbeat) -> None:
    @app.schedule("hourly :05", name="early", payload={"page": 1})
    @app.schedule("hourly :55", name="late", payload={"page": 2})
    @app.handler("crawl pages")
    def crawl(payload: Any) -> Any:
        return payload

    @app.schedule("daily 01:00", payload={"text": "x"})
    @app.function
    def count(text: str) -> int:
        return len(text)

    jobs = {job.definition.name: job.definition for job in await deployed(app)}
    assert {(job.kind, job.payload["page"]) for job in (jobs["early"], jobs["late"])} == {
        ("crawl pages", 1),
        ("crawl pages", 2),
    }
    assert jobs["count"].kind == "function"
    assert jobs["count"].payload == {"name": "count", "args": {"text": "x"}}


async def test_a_node_that_starts_with_the_app_runs_its_schedules(
    app: Evenbeat, clock: Clock
) -> None:
    @app.schedule("every 10m", payload={"a": 1})
    async def tick(payload: Any, context: RunContext) -> Any:
        return [payload, context.job_name]

    async with app.worker():
        [job] = await stored(app)
        assert job.pulse.due_at is not None
        await clock.set_to(job.pulse.due_at)

        async def look() -> Any:
            return [run.result for run in (await app.runs.of_job(job.uid)).runs if run.finished_at]

        assert await eventually(look) == [[{"a": 1}, "tick"]]
        assert (await app.lag()).live_nodes == 1
    assert not app.is_open


@pytest.mark.parametrize(
    ("schedule", "options", "field"),
    [
        ("every moon", {}, "schedule.every"),
        ("every 5m", {"tz": "Europe/Berlin"}, "schedule.zone"),
        ("0 8 * * *", {"tz": "Europe/Nowhere"}, "schedule.zone"),
        ("hourly", {"prio": 3}, "prio"),
        ("hourly", {"timeout": "soon"}, "timeout"),
        ("hourly", {"catch_up": "some"}, "catch_up"),
        ("hourly", {"backoff": {"kind": "odd"}}, "backoff.kind"),
        ("hourly", {"group": {"max_running": 1}}, "group.key"),
        ("hourly", {"group": {"key": "x", "most": 1}}, "group.most"),
        ("hourly", {"runs_on": "gpu"}, "runs_on"),
        ("hourly", {"starts_at": "2026-01-01"}, "starts_at"),
    ],
)
def test_what_cannot_be_is_told_where_it_is_written(
    app: Evenbeat, schedule: str, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.schedule(schedule, **options)(report)
    assert refused.value.errors[0].field == field
    assert not app.declared


def test_two_schedules_of_one_name_are_refused(app: Evenbeat) -> None:
    app.schedule("hourly")(report)
    with pytest.raises(InvalidInput, match="a schedule 'report' already"):
        app.schedule("daily 06:00")(report)


async def test_enqueue_takes_a_kind_or_a_function(eb: Evenbeat, clock: Clock) -> None:
    eb.handler("report")(report)

    @eb.function("counted")
    def count(text: str) -> int:
        return len(text)

    later = clock.now.replace(hour=23)
    by_kind = await eb.enqueue("echo", {"a": 1}, run_at=later, name="x", priority=3, timeout=5)
    by_handler = await eb.enqueue(report, dedupe_key="one")
    by_function = await eb.enqueue(count, {"text": "four"})
    assert by_kind.pulse.due_at == later
    assert (by_kind.definition.priority, by_kind.definition.name) == (3, "x")
    assert (by_handler.definition.kind, by_handler.definition.payload) == ("report", {})
    assert by_function.definition.payload == {"name": "counted", "args": {"text": "four"}}
    assert not (await eb.enqueue(report, dedupe_key="one")).is_new
    with pytest.raises(InvalidInput, match="deployed is no handler and no function of this app"):
        await eb.enqueue(deployed)
    with pytest.raises(InvalidInput, match="missing a required argument: 'text'"):
        await eb.enqueue(count, {})


async def test_an_app_that_is_not_open_says_how_to_open_it(app: Evenbeat) -> None:
    with pytest.raises(RuntimeError, match="open the app before using it"):
        await app.enqueue("echo")


async def test_a_start_that_fails_leaves_nothing_open(app: Evenbeat) -> None:
    app.schedule("hourly", name="x" * 300)(report)
    with pytest.raises(InvalidInput, match="name"):
        await app.start()
    assert not app.is_open


async def test_what_is_started_is_started_once_and_can_be_started_again(app: Evenbeat) -> None:
    await app.start()
    with pytest.raises(RuntimeError, match="started already"):
        await app.start()
    await app.stop()
    await app.start()
    with pytest.raises(NotFound):
        await app.jobs.get(uuid4())
    await app.stop()
    await app.stop()
