"""Putting a job by its name: made, changed or left alone, and its rhythm is kept."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Job, RunState, State
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database.pool import Database
from tests.control.given import counts, definition, fetch, value
from tests.engine.node_runner import Does, Gate, NodeRunner
from tests.support.databases import Clock

HOUR = timedelta(hours=1)


def report(schedule: str = "every 1h", **more: Any) -> Any:
    return definition(schedule, name="report", **more)


async def versions(database: Database) -> tuple[Any, ...]:
    query = """
        select job.version, pulse.def_version, pulse.plan_version
        from evenbeat.job join evenbeat.pulse on pulse.id = job.id
    """
    [row] = await fetch(database, query)
    return tuple(row)


async def test_a_name_that_is_free_makes_a_job(jobs: Jobs) -> None:
    job = await jobs.put(report())
    assert job.is_new
    assert job == await jobs.get(job.uid)


@pytest.mark.parametrize(
    "schedule", ["every 1h", "H * * * *", "daily 06:00 Europe/Berlin", "now", "every 1h phase=5m"]
)
async def test_what_is_put_again_is_left_alone(
    jobs: Jobs, database: Database, clock: Clock, schedule: str
) -> None:
    first = await jobs.put(report(schedule, payload={"a": (1,)}, group=Group("g", 3), priority=7))
    await clock.advance(minutes=17)
    again = await jobs.put(report(schedule, payload={"a": [1]}, group=Group("g", 9), priority=7))
    assert again == first
    assert not again.is_new
    assert await versions(database) == (1, 1, 1)


async def test_true_is_another_payload_than_one(jobs: Jobs) -> None:
    await jobs.put(report(payload={"v": [1]}))
    changed = await jobs.put(report(payload={"v": [True]}))
    assert changed.version == 2
    assert (await jobs.get(changed.uid)).definition.payload["v"][0] is True


async def test_a_changed_payload_keeps_the_rhythm_and_the_owed_beat(
    jobs: Jobs, database: Database, clock: Clock
) -> None:
    first = await jobs.put(report(payload="old"))
    await clock.advance(hours=3, minutes=20)
    changed = await jobs.put(report(payload="new"))
    assert not changed.is_new
    assert changed.uid == first.uid
    assert changed.definition.payload == "new"
    assert changed.definition.timetable == first.definition.timetable
    # Overdue since two hours, and still owed.
    assert changed.pulse.next_beat_at == first.pulse.next_beat_at
    assert changed.updated_at == clock.now
    assert await versions(database) == (2, 2, 1)


async def test_a_changed_schedule_is_planned_anew(
    jobs: Jobs, database: Database, clock: Clock
) -> None:
    await jobs.put(report("every 1h"))
    await clock.advance(minutes=10)
    changed = await jobs.put(report("every 2h"))
    assert changed.pulse.next_beat_at == clock.now + 2 * HOUR
    assert await versions(database) == (2, 2, 2)


async def test_a_changed_schedule_does_not_forget_an_overdue_beat(jobs: Jobs, clock: Clock) -> None:
    first = await jobs.put(report("every 1h"))
    await clock.advance(hours=1, minutes=10)
    changed = await jobs.put(report("every 2h"))
    assert changed.pulse.due_at == first.pulse.next_beat_at
    assert changed.pulse.next_beat_at == clock.now + 2 * HOUR


async def test_a_job_becomes_recurring_and_one_off_again(jobs: Jobs, clock: Clock) -> None:
    await jobs.put(report("once 2031-01-01T00:00:00Z"))
    assert (await jobs.put(report("every 1h"))).pulse.state is State.SCHEDULED
    once = await jobs.put(report("once 2032-01-01T00:00:00Z"))
    assert once.pulse.state is State.PENDING
    assert once.pulse.next_beat_at == once.pulse.due_at is not None
    assert (await jobs.put(report("now"))).pulse.due_at == clock.now


async def test_what_is_over_is_not_brought_back(node_runner: NodeRunner, jobs: Jobs) -> None:
    job = await jobs.put(report("now"))
    async with node_runner.node(Does(Done())):
        await node_runner.closed(job)
    for schedule in ("now", "every 1h", "once 2020-01-01T00:00:00Z"):
        put = await jobs.put(report(schedule, payload=schedule))
        assert put.pulse.state is State.COMPLETED
        assert (put.pulse.next_beat_at, put.pulse.due_at) == (None, None)


async def test_a_running_job_is_changed_and_its_beat_is_run_once(
    node_runner: NodeRunner, jobs: Jobs, clock: Clock
) -> None:
    gate = Gate()
    job = await jobs.put(report("every 1h", group=Group("old", 1)))
    await clock.advance(hours=1)
    async with node_runner.node(Does(gate)):
        await gate.reached.wait()
        changed = await jobs.put(report("every 2h", group=Group("new", 1)))
        assert changed.pulse.state is State.RUNNING
        assert changed.pulse.next_beat_at == clock.now + 2 * HOUR
        gate.open.set()
        assert (await node_runner.closed(job)).state is RunState.COMPLETED
    after = await jobs.get(job.uid)
    assert after.pulse.next_beat_at == clock.now + 2 * HOUR
    assert after.pulse.run_number == 1
    assert await node_runner.value("select count(*) from evenbeat.permit") == 0


@pytest.mark.parametrize("before", [None, Group("old")])
@pytest.mark.parametrize("after", [None, Group("new")])
async def test_the_place_of_a_running_job_is_in_the_group_it_was_claimed_in(
    node_runner: NodeRunner, jobs: Jobs, before: Group | None, after: Group | None
) -> None:
    gate = Gate()
    job = await jobs.put(report("now", group=before))
    async with node_runner.node(Does(gate)):
        await gate.reached.wait()
        await jobs.put(report("now", group=after))
        held = await node_runner.value("select count(*) from evenbeat.permit")
        assert held == (before is not None)
        gate.open.set()
        await node_runner.closed(job)
    assert await node_runner.value("select count(*) from evenbeat.permit") == 0


async def test_a_parked_job_that_leaves_its_group_is_claimed(
    node_runner: NodeRunner, jobs: Jobs
) -> None:
    job = await jobs.put(report("now", group=Group("full", 1)))
    await node_runner.fetch("update evenbeat.pulse set is_parked = true")
    await jobs.put(report("now"))
    async with node_runner.node(Does(Done())):
        assert (await node_runner.closed(job)).state is RunState.COMPLETED


async def test_a_job_of_another_kind_waits_in_another_lane(
    database: Database, node_runner: NodeRunner
) -> None:
    jobs = Jobs(database, Registry([Does(Done()), Does(Done(), kind="other")]))
    job = await jobs.put(report("now"))
    await jobs.put(definition("now", kind="other", name="report", runs_on=("gpu",)))
    async with node_runner.node(Does(Done(), kind="other"), labels=("gpu",)):
        assert (await node_runner.closed(job)).state is RunState.COMPLETED


async def test_many_who_put_one_name_at_once_make_one_job(database: Database) -> None:
    several = [Jobs(database, Registry([Does(Done())])) for _ in range(10)]
    for schedule in ("every 1h", "every 2h"):
        put: list[Job] = await asyncio.gather(*(each.put(report(schedule)) for each in several))
        assert len({job.uid for job in put}) == 1
        assert [job.is_new for job in put].count(True) == (schedule == "every 1h")
    assert (await counts(database))["job"] == 1
    # Whoever came second found it changed already.
    assert await versions(database) == (2, 2, 2)
    for each in several:
        await each.close()


async def test_the_name_of_a_deleted_job_makes_a_new_one(jobs: Jobs, database: Database) -> None:
    first = await jobs.put(report())
    await jobs.delete(first.uid)
    assert (await jobs.put(report())).uid != first.uid
    assert await value(database, "select count(*) from evenbeat.job") == 2


async def test_what_cannot_be_put_is_refused_by_its_field(jobs: Jobs) -> None:
    with pytest.raises(InvalidInput, match="name: is missing"):
        await jobs.put(definition("every 1h"))
    await jobs.put(report())
    with pytest.raises(InvalidInput, match="max_attempts"):
        await jobs.put(report(policy={"max_attempts": 0}))
    with pytest.raises(InvalidInput, match="kind"):
        await jobs.put(report(kind="dance"))
