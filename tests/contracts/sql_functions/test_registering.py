"""metadata.scheduled_jobs: a table to its users, with everything that the document says of it."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.jobs.model import State
from evenbeat.core.runs.registry import Registry
from evenbeat.store.jobs import definitions
from tests.conftest import START
from tests.contracts.sql_functions.client import Integrator

COLUMNS = [
    "id",
    "name",
    "description",
    "function_name",
    "schedule",
    "timezone",
    "enabled",
    "last_run_at",
]
RUN_COLUMNS = [
    "id",
    "job_id",
    "started_at",
    "completed_at",
    "duration_ms",
    "success",
    "message",
    "details",
    "scheduled_for",
    "triggered_by",
]


async def columns_of(me: Integrator, view: str) -> list[str]:
    statement = await me.sql.prepare(f"select * from {view}")
    return [attribute.name for attribute in statement.get_attributes()]


async def test_the_columns_are_those_of_the_document(me: Integrator) -> None:
    assert await columns_of(me, "metadata.scheduled_jobs") == [
        *COLUMNS,
        "created_at",
        "updated_at",
    ]
    assert await columns_of(me, "metadata.scheduled_job_runs") == RUN_COLUMNS
    assert await columns_of(me, "scheduled_job_status") == [
        *COLUMNS,
        *["created_at", "updated_at", "last_run_id", "last_run_success", "last_run_message"],
        *["last_run_duration_ms", "last_run_triggered_by", "total_runs", "successful_runs"],
        *["failed_runs", "success_rate_percent"],
    ]


async def test_the_columns_have_the_types_of_the_document(me: Integrator) -> None:
    types: dict[str, str] = {}
    for view in ("metadata.scheduled_jobs", "metadata.scheduled_job_runs"):
        statement = await me.sql.prepare(f"select * from {view}")
        types |= {each.name: each.type.name for each in statement.get_attributes()}
    assert types == {
        "id": "int8",
        "name": "varchar",
        "description": "text",
        "function_name": "varchar",
        "schedule": "varchar",
        "timezone": "varchar",
        "enabled": "bool",
        "last_run_at": "timestamptz",
        "created_at": "timestamptz",
        "updated_at": "timestamptz",
        "job_id": "int4",
        "started_at": "timestamptz",
        "completed_at": "timestamptz",
        "duration_ms": "int4",
        "success": "bool",
        "message": "text",
        "details": "jsonb",
        "scheduled_for": "timestamptz",
        "triggered_by": "varchar",
    }
    for column in ("name", "function_name", "schedule", "timezone", "enabled"):
        with pytest.raises(asyncpg.PostgresError, match=f"{column}"):
            await me.register(**{column: None})
    for column, length in (("name", 100), ("function_name", 200), ("schedule", 100)):
        with pytest.raises(asyncpg.StringDataRightTruncationError, match=f"varying.{length}"):
            await me.register(**{column: "x" * (length + 1)})


async def test_what_is_left_out_has_the_documented_defaults(me: Integrator) -> None:
    await me.function("return null;")
    row = await me.sql.fetchrow(
        "insert into metadata.scheduled_jobs (name, function_name, schedule)"
        " values ('job', 'work', '0 3 * * *') returning *"
    )
    assert isinstance(row["id"], int)
    assert (row["timezone"], row["enabled"]) == ("UTC", True)
    assert (row["description"], row["last_run_at"]) == (None, None)
    assert row["created_at"] == row["updated_at"]


async def test_ids_are_small_and_grow(me: Integrator) -> None:
    first = await me.register(name="one")
    assert await me.register(name="two") > first


async def test_a_row_that_conflicts_by_name_updates_the_one_that_is_there(me: Integrator) -> None:
    first = await me.register("0 3 * * *")
    upsert = """
        insert into metadata.scheduled_jobs (name, function_name, schedule, timezone)
        values ('job', 'work', '0 4 * * *', 'Europe/Berlin')
        on conflict (name) do update
        set schedule = excluded.schedule, timezone = excluded.timezone
        returning id, schedule
    """
    for _ in range(2):
        row = await me.sql.fetchrow(upsert)
        assert (row["id"], row["schedule"]) == (first, "0 4 * * *")
    pulse = await me.pulse()
    assert pulse["version"] == 2, "the second time nothing changed"
    assert pulse["timetable"] == {"schedule": {"cron": "0 4 * * *", "zone": "Europe/Berlin"}}
    await me.sql.execute(
        "insert into metadata.scheduled_jobs (name, function_name, schedule)"
        " values ('job', 'work', '0 5 * * *') on conflict do nothing"
    )
    assert (await me.pulse())["version"] == 2


async def test_a_name_is_given_once(me: Integrator) -> None:
    await me.register()
    with pytest.raises(asyncpg.UniqueViolationError):
        await me.register()


async def test_a_name_that_another_sort_of_job_has_is_refused(me: Integrator) -> None:
    await me.add("every 1h", name="job")
    with pytest.raises(asyncpg.UniqueViolationError, match="there is a job named 'job' already"):
        await me.register()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "0 25 * * *"}, "schedule: '0 25 .*bad hour: 0-23"),
        ({"schedule": "every day"}, "schedule: .*write 5 fields"),
        ({"schedule": "0 0 31 2 *"}, "schedule: .*a day that never comes"),
        ({"schedule": "0 H * * *"}, "schedule: .*H is chosen by Python"),
        ({"timezone": "Mars/Olympus"}, "timezone: 'Mars/Olympus' is not .*Europe/Berlin"),
        ({"timezone": "EST+5"}, "timezone: "),
        ({"function_name": "nowhere"}, "function_name: there is no function nowhere .*create"),
        ({"function_name": "no.place"}, "function_name: there is no function no.place"),
        ({"function_name": "work(); drop"}, "function_name: "),
        ({"function_name": "many"}, "function_name: there are 2 functions"),
        ({"function_name": "says"}, "function_name: .*must return jsonb"),
        ({"function_name": "rows"}, "function_name: .*must return jsonb"),
        ({"function_name": "takes"}, "function_name: .*must take nothing, or one jsonb"),
        ({"function_name": "acts"}, "function_name: .*is not a plain function"),
        ({"function_name": "mighty"}, "function_name: .*SECURITY DEFINER and belongs to"),
        ({"name": " "}, "name: must not be blank"),
    ],
)
async def test_what_could_not_run_is_refused_with_what_to_do(
    me: Integrator, given: dict[str, Any], message: str
) -> None:
    await me.sql.execute("""
        create function many() returns jsonb language sql return '{}'::jsonb;
        create function many(jsonb) returns jsonb language sql return '{}'::jsonb;
        create function says() returns text language sql return 'yes';
        create function rows() returns setof jsonb language sql as 'select null::jsonb';
        create function takes(integer) returns jsonb language sql return '{}'::jsonb;
        create procedure acts() language sql as '';
    """)
    async with me.session() as owner:
        await owner.execute(
            "create function public.mighty() returns jsonb security definer language sql"
            " return '{}'::jsonb"
        )
        try:
            with pytest.raises(asyncpg.CheckViolationError, match=message):
                await me.register(**given)
            await me.register(name="sound")
            if "name" not in given:
                [(column, value)] = given.items()
                with pytest.raises(asyncpg.CheckViolationError, match=message):
                    await me.sql.execute(f"update metadata.scheduled_jobs set {column} = $1", value)
        finally:
            await owner.execute("drop function public.mighty()")
    assert await me.row() is None


async def test_a_job_of_sql_is_the_job_that_python_would_write(me: Integrator, jobs: Jobs) -> None:
    await me.register("*/15  8-18 * * MON-FRI", timezone="Europe/Berlin")
    async with me.serving():
        pulse = await me.planned()
    job = await jobs.get(pulse["uid"])
    assert job.definition.payload == {"function": "public.work"}
    assert (job.pulse.state, job.version) == (State.SCHEDULED, 1)
    assert definitions.definition_columns(job.definition)["timetable"] == pulse["timetable"]
    assert job.pulse.next_beat_at == START + timedelta(minutes=15)


async def test_a_job_of_another_face_is_shown_and_can_be_changed(
    me: Integrator, jobs: Jobs
) -> None:
    await me.function("return null;")
    job = await me.add(
        "0 H * * * Europe/Berlin",
        kind="sql_function",
        name="theirs",
        payload={"function": "public.work", "arguments": {}},
    )
    row = await me.row("theirs")
    assert row is not None
    assert (row["schedule"], row["timezone"]) == ("0 H * * *", "Europe/Berlin")
    assert row["function_name"] == "public.work"
    await jobs.disable(job.uid)
    assert not (await me.row("theirs") or {})["enabled"]
    await me.sql.execute("update metadata.scheduled_jobs set enabled = true, description = 'x'")
    assert (await jobs.get(job.uid)).pulse.state is State.SCHEDULED
    await jobs.delete(job.uid)
    assert await me.row("theirs") is None


async def test_other_jobs_are_not_shown(me: Integrator) -> None:
    await me.function("return null;")
    payload = {"function": "public.work"}
    await me.add("0 3 * * *", name="other")
    await me.add("every 1h", kind="sql_function", name="interval", payload=payload)
    await me.add("0 3 * * *", kind="sql_function", payload=payload)
    assert await me.sql.fetchval("select count(*) from metadata.scheduled_jobs") == 0


async def test_a_rollback_takes_the_job_back(me: Integrator) -> None:
    transaction = me.sql.transaction()
    await transaction.start()
    await me.register()
    await me.trigger()
    await transaction.rollback()
    assert await me.row() is None
    async with me.session() as owner:
        assert await owner.fetchval("select count(*) from evenbeat.job") == 0


async def test_deleting_frees_the_name_and_keeps_the_history(me: Integrator, jobs: Jobs) -> None:
    await me.register()
    await me.trigger()
    uid = (await me.pulse())["uid"]
    await me.sql.execute("delete from metadata.scheduled_jobs where name = 'job'")
    assert await me.row() is None
    assert await me.sql.fetchval("select count(*) from metadata.scheduled_job_runs") == 0
    job = await jobs.get(uid, with_deleted=True)
    assert (job.pulse.state, job.pulse.completed_count) == (State.CANCELLED, 1)
    await me.register()
    assert (await me.pulse())["uid"] != uid


async def test_what_is_done_by_sql_is_in_the_audit_and_among_the_versions(
    me: Integrator, jobs: Jobs
) -> None:
    await me.register()
    await me.sql.execute("update metadata.scheduled_jobs set schedule = '0 4 * * *'")
    await me.sql.execute("update metadata.scheduled_jobs set enabled = false")
    uid = (await me.pulse())["uid"]
    versions = await jobs.versions(uid)
    assert [(each.number, each.replaced_by) for each in versions] == [
        (2, None),
        (1, "sql:integrator"),
    ]
    await me.sql.execute("delete from metadata.scheduled_jobs")
    async with me.session() as owner:
        rows = await owner.fetch("select action, actor, job_uid from evenbeat.audit order by id")
    assert [row["action"] for row in rows] == ["add", "edit", "disable", "delete"]
    assert {(row["actor"], row["job_uid"]) for row in rows} == {("sql:integrator", uid)}


@pytest.fixture
def jobs(me: Integrator) -> Jobs:
    return Jobs(me.database, Registry())
