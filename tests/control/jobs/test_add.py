"""Adding a job: the returned job is the stored one, and an error names the field."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.jobs.backoff import Fixed, RetryRule
from evenbeat.core.jobs.groups import Group, Rate
from evenbeat.core.jobs.model import AfterFailure, CatchUp, Definition, Policy, State
from evenbeat.core.time.timetable import Timetable, TimetableBounds
from evenbeat.store.database.pool import Database
from tests.conftest import START
from tests.control.given import counts, definition, fetch, value

SECOND = timedelta(seconds=1)
WRITTEN: list[Definition] = [
    definition(),
    definition("every 1h", name="hourly"),
    definition("every 90m phase=2m", priority=100),
    definition("H H(0-7) * * *", name="hashed"),
    definition("daily 06:00 Europe/Berlin", labels={"team": "search", "city": "Zürich"}),
    definition("once 2031-12-01T08:00:00.25Z", payload={"a": (1, 2.5, None), "b": "ü"}),
    definition(payload=None),
    definition(payload="text"),
    definition(runs_on=("gpu", "eu", "gpu")),
    definition(payload={"host": "x"}, group=Group("host:{payload.host}", 3, Rate(2, SECOND), 2)),
    definition(
        policy={
            "max_attempts": 1000,
            "backoff": Fixed(wait=SECOND),
            "timeout": timedelta(days=30),
            "catch_up": CatchUp.ALL,
            "catch_up_cap": 1,
            "start_deadline": SECOND,
            "after_failure": AfterFailure.STOP,
            "pause_after_failures": 1,
            "retry_rules": (RetryRule("timeout", None, 1),),
        }
    ),
]


@pytest.mark.parametrize("written", WRITTEN, ids=str)
async def test_the_returned_job_is_the_stored_one(jobs: Jobs, written: Definition) -> None:
    job = await jobs.add(written)
    assert job == await jobs.get(job.uid)
    assert job.is_new
    assert not (await jobs.get(job.uid)).is_new


async def test_a_job_costs_one_statement(jobs: Jobs, database: Database) -> None:
    real = Jobs(Database(database.url), jobs._registry)
    await real._database.open()
    try:
        await real.add(definition())
        asked: list[str] = []
        async with real._database.connection() as connection:
            connection.add_query_logger(lambda record: asked.append(record.query))
        await real.add(definition())
        # The one beside it wakes the nodes, a moment later, for all jobs of that moment.
        assert (
            len([query for query in asked if "pg_notify('evenbeat_wake', '');" not in query]) == 1
        )
    finally:
        await real.close()
        await real._database.close()


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 1001}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_attempts": 2.0}, "max_attempts"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"timeout": -SECOND}, "timeout"),
        ({"timeout": timedelta(days=30, seconds=1)}, "timeout"),
        ({"timeout": 60}, "timeout"),
        ({"catch_up_cap": 0}, "catch_up_cap"),
        ({"catch_up_cap": 10_001}, "catch_up_cap"),
        ({"start_deadline": timedelta(0)}, "start_deadline"),
        ({"start_deadline": timedelta(days=3651)}, "start_deadline"),
        ({"pause_after_failures": 0}, "pause_after_failures"),
        ({"retry_rules": (RetryRule("a\x00"),)}, "retry_rules[0].error"),
        ({"retry_rules": (RetryRule("x"),) * 101}, "retry_rules"),
    ],
)
async def test_a_policy_out_of_bounds_is_refused_by_its_field(
    jobs: Jobs, database: Database, policy: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await jobs.add(definition(policy=policy))
    assert [error.field for error in refused.value.errors] == [field]
    assert (await counts(database))["job"] == 0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": ""}, "kind"),
        ({"kind": "x" * 101}, "kind"),
        ({"kind": "wo\x00rk"}, "kind"),
        ({"name": "   "}, "name"),
        ({"name": 7}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"priority": 1.5}, "priority"),
        ({"priority": True}, "priority"),
        ({"payload": {"a": "\ud800"}}, "payload.a"),
        ({"payload": {"a": {1, 2}}}, "payload.a"),
        ({"payload": "x" * 1_000_000}, "payload"),
        ({"labels": {str(n): "x" for n in range(51)}}, "labels"),
        ({"runs_on": ("",)}, "runs_on[0]"),
        ({"runs_on": ("a", "b\x00")}, "runs_on[1]"),
        ({"runs_on": tuple(map(str, range(51)))}, "runs_on"),
    ],
)
async def test_a_field_out_of_bounds_is_refused_by_its_name(
    jobs: Jobs, database: Database, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await jobs.add(definition(**fields))
    assert [error.field for error in refused.value.errors] == [field]
    stored = await counts(database)
    kept = {"migration", "repeatable", "placing", "zone"}
    assert {table for table, count in stored.items() if count} <= kept


@pytest.mark.parametrize("key", ["", "   ", "x" * 201, "a\x00b", "\udfff", 7])
async def test_a_bad_dedupe_key_is_refused(jobs: Jobs, key: Any) -> None:
    with pytest.raises(InvalidInput, match="dedupe_key"):
        await jobs.add(definition(), dedupe_key=key)


async def test_a_job_that_would_never_run_is_refused(jobs: Jobs) -> None:
    over = Timetable(definition("every 1h").timetable.schedule, TimetableBounds(ends_at=START))
    with pytest.raises(InvalidInput, match="nothing would ever run"):
        await jobs.add(Definition("work", over))


async def test_a_group_and_a_lane_are_made_with_their_first_job_only(
    jobs: Jobs, database: Database
) -> None:
    for _ in range(2):
        await jobs.add(definition(group=Group("site", 3), runs_on=("gpu",)))
    found = await counts(database)
    assert (found["job"], found["job_group"], found["lane"]) == (2, 1, 1)


async def test_a_name_that_is_taken_leaves_nothing_of_the_second_job(
    jobs: Jobs, database: Database
) -> None:
    await jobs.add(definition(name="nightly"))
    before = await counts(database)
    with pytest.raises(Conflict, match="a job named 'nightly' already"):
        await jobs.add(definition(name="nightly", group=Group("site"), runs_on=("gpu",)))
    assert await counts(database) == before


async def test_a_job_of_the_past_is_due_at_once(jobs: Jobs) -> None:
    job = await jobs.add(definition("once 2020-01-01T00:00:00Z"))
    assert job.pulse.state is State.PENDING
    assert job.pulse.due_at == datetime(2020, 1, 1, tzinfo=UTC)


async def test_the_policy_that_is_shared_is_not_trusted_after_another(jobs: Jobs) -> None:
    """Checks are remembered by identity, and only within one call."""
    await jobs.add(definition())
    with pytest.raises(InvalidInput):
        await jobs.add(Definition("work", definition().timetable, policy=Policy(max_attempts=0)))


async def test_ids_sort_by_the_time_of_birth(jobs: Jobs, database: Database) -> None:
    uids = [(await jobs.add(definition())).uid for _ in range(3)]
    assert {uid.version for uid in uids} == {7}
    stored = await fetch(database, "select uid from evenbeat.job order by id")
    assert [row["uid"] for row in stored] == uids
    assert await value(database, "select max(id) from evenbeat.job") == (await jobs.get(uids[2])).id
