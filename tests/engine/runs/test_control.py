"""Adding jobs: what cannot work is refused by its field, before anything is stored."""

from typing import Any

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.control.runs.history import History
from evenbeat.core.errors import Conflict, InvalidInput, NotFound
from evenbeat.core.jobs.model import Definition, State
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable, TimetableBounds
from evenbeat.store.jobs.job_inserts import new_job_uid
from tests.conftest import START
from tests.engine.node_runner import Does, NodeRunner

NOW = Timetable(parse_schedule("now"))
OVER = Timetable(parse_schedule("every 1h"), TimetableBounds(ends_at=START))


class Picky(Does):
    def check(self, payload: Any) -> None:
        if payload != {}:
            raise InvalidInput("payload.url", "is missing")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "dance"}, "kind"),
        ({"kind": "a\x00"}, "kind"),
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"payload": {"a": float("inf")}}, "payload.a"),
        ({"payload": {"other": 1}}, "payload.url"),
        ({"labels": {"a": "\x00"}}, "labels.a"),
        ({"priority": 101}, "priority"),
        ({"priority": -1}, "priority"),
        ({"timetable": OVER}, "schedule"),
    ],
)
async def test_what_cannot_work_is_refused_by_its_field_and_nothing_is_stored(
    node_runner: NodeRunner, fields: dict[str, Any], field: str
) -> None:
    written = Definition(**{"kind": "work", "timetable": NOW} | fields)
    with pytest.raises(InvalidInput) as refused:
        await Jobs(node_runner.database, Registry([Picky(Done())])).add(written)
    assert refused.value.errors[0].field == field
    assert await node_runner.value("select count(*) from evenbeat.job") == 0


async def test_an_unknown_kind_is_refused_with_the_kinds_there_are(node_runner: NodeRunner) -> None:
    await node_runner.add(kind="seen")
    with pytest.raises(InvalidInput, match="no kind 'dance'; known kinds: seen, work"):
        await Jobs(node_runner.database, Registry([Does(Done())])).add(Definition("dance", NOW))


async def test_a_kind_that_any_node_ever_served_is_known_everywhere(
    node_runner: NodeRunner,
) -> None:
    async with node_runner.node(Does(Done(), kind="elsewhere")):
        pass
    job = await Jobs(node_runner.database, Registry()).add(Definition("elsewhere", NOW))
    assert job.pulse.state is State.PENDING


async def test_a_name_that_is_taken_is_a_conflict(node_runner: NodeRunner) -> None:
    await node_runner.add(name="nightly")
    with pytest.raises(Conflict):
        await node_runner.add(name="nightly")


async def test_the_history_of_a_job_has_its_runs_and_how_many_there_are(
    node_runner: NodeRunner,
) -> None:
    job = await node_runner.add()
    async with node_runner.node(Does(Done(result="done"))):
        await node_runner.closed(job)
    page = await History(node_runner.database).of_job(job.uid)
    assert ([run.result for run in page.runs], page.total) == (["done"], 1)


async def test_the_history_of_an_unknown_job_is_not_found(node_runner: NodeRunner) -> None:
    with pytest.raises(NotFound):
        await History(node_runner.database).of_job(new_job_uid(START))
