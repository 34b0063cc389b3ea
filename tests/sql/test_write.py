"""What is told when a job is written that can never work, and which functions can."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import Definition, RunState
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.handlers.sql_function import SqlFunction
from tests.sql.sql_schema import ONCE, SqlSchema

FUNCTIONS = """
    create function shop.good() returns jsonb language sql as 'select null::jsonb';
    create function shop."Odd Name"(jsonb) returns jsonb language sql as 'select $1';
    create function shop.twice() returns jsonb language sql as 'select null::jsonb';
    create function shop.twice(jsonb) returns jsonb language sql as 'select null::jsonb';
    create function shop.says_text() returns text language sql as 'select null';
    create function shop.says_many() returns setof jsonb language sql as 'select null::jsonb';
    create function shop.wants_text(text) returns jsonb language sql as 'select null::jsonb';
    create function shop.wants_two(jsonb, jsonb) returns jsonb language sql as 'select $1';
    create function shop.wants_any(variadic jsonb[]) returns jsonb language sql as 'select $1[1]';
    create procedure shop.commits() language sql as 'select 1';
    create aggregate shop.all_of(jsonb) (sfunc = jsonb_concat, stype = jsonb);
    create function shop.mighty() returns jsonb language sql security definer
        as 'select null::jsonb';
"""


def definition(payload: Any) -> Definition:
    return Definition("sql_function", Timetable(parse_schedule("every 1h")), payload=payload)


@pytest.fixture
def jobs(sql_schema: SqlSchema) -> Jobs:
    return Jobs(sql_schema.database, Registry(known=[SqlFunction()]))


# By the payload alone, wherever it is looked at.
MALFORMED: list[tuple[Any, str, str]] = [
    ([], "payload", "must be an object"),
    ({}, "payload.function", "must be a name with its schema"),
    ({"function": 1}, "payload.function", "must be a name with its schema"),
    ({"function": "good"}, "payload.function", "must be a name with its schema"),
    ({"function": "a.b.c"}, "payload.function", "must be a name with its schema"),
    ({"function": "shop.good()"}, "payload.function", "must be a name with its schema"),
    ({"function": "shop.good; drop x"}, "payload.function", "must be a name with its schema"),
    ({"function": "shop.good\n"}, "payload.function", "must be a name with its schema"),
    ({"function": f"shop.{'x' * 200}"}, "payload.function", "must be a name with its schema"),
    ({"function": "shop.good", "args": 1}, "payload.args", "known: function, arguments"),
    ({"function": "shop.good", "arguments": [1]}, "payload.arguments", "must be an object"),
]
# By the database alone.
UNFIT: list[tuple[Any, str, str]] = [
    ({"function": "shop.good", "arguments": {"a": 1}}, "payload.arguments", "takes none"),
    ({"function": "shop.nowhere"}, "payload.function", "there is no function shop.nowhere"),
    ({"function": "nowhere.good"}, "payload.function", "there is no function nowhere.good"),
    # Two letters of another alphabet.
    ({"function": "shop.g\u043e\u043ed"}, "payload.function", "there is no function"),
    ({"function": "shop.twice"}, "payload.function", "there are 2 functions named shop.twice"),
    ({"function": "shop.says_text"}, "payload.function", "returns text; it must return jsonb"),
    ({"function": "shop.says_many"}, "payload.function", "returns SETOF jsonb; it must"),
    ({"function": "shop.wants_text"}, "payload.function", "must take nothing, or one jsonb"),
    ({"function": "shop.wants_two"}, "payload.function", "must take nothing, or one jsonb"),
    ({"function": "shop.wants_any"}, "payload.function", "must take nothing, or one jsonb"),
    ({"function": "shop.commits"}, "payload.function", "is not a plain function"),
    ({"function": "shop.all_of"}, "payload.function", "is not a plain function"),
    ({"function": "shop.mighty"}, "payload.function", "is SECURITY DEFINER and belongs to"),
]


async def test_what_can_never_work_is_refused_by_its_field(
    sql_schema: SqlSchema, jobs: Jobs
) -> None:
    await sql_schema.script(FUNCTIONS)
    for payload, field, told in MALFORMED + UNFIT:
        with pytest.raises(InvalidInput) as refused:
            await jobs.add(definition(payload))
        [error] = refused.value.errors
        assert error.field == field, payload
        assert told in error.message, payload
    assert await sql_schema.value("select count(*) from evenbeat.job") == 0


async def test_of_many_jobs_those_at_fault_are_named(sql_schema: SqlSchema, jobs: Jobs) -> None:
    await sql_schema.script(FUNCTIONS)
    good = definition({"function": "shop.good"})
    bad = [definition(payload) for payload, _, _ in MALFORMED + UNFIT]
    with pytest.raises(InvalidInput) as refused:
        await jobs.add_many([good, *bad, good])
    assert [error.field for error in refused.value.errors] == [
        f"jobs[{place}].{field}" for place, (_, field, _) in enumerate(MALFORMED + UNFIT, 1)
    ]
    assert (await jobs.add_many([good] * 3)).new_count == 3


async def test_an_edit_is_checked_as_well(sql_schema: SqlSchema, jobs: Jobs) -> None:
    await sql_schema.script(FUNCTIONS)
    job = await jobs.add(definition({"function": "shop.good"}))
    with pytest.raises(InvalidInput, match=r"payload\.function: there is no function shop\.bad"):
        await jobs.edit(job.uid, definition({"function": "shop.bad"}))


async def test_names_are_read_as_sql_reads_them(sql_schema: SqlSchema) -> None:
    await sql_schema.script(FUNCTIONS)
    async with sql_schema.serving():
        for name in ("shop.good", 'SHOP."good"', 'shop."Odd Name"'):
            job = await sql_schema.add(kind="sql_function", payload={"function": name})
            assert (await sql_schema.closed(job)).state is RunState.COMPLETED


async def test_a_function_may_be_made_in_the_transaction_that_adds_its_job(
    sql_schema: SqlSchema, jobs: Jobs, other_session: asyncpg.Connection
) -> None:
    async with other_session.transaction():
        await other_session.execute(FUNCTIONS)
        job = await jobs.add(definition({"function": "shop.good"}), connection=other_session)
        with pytest.raises(InvalidInput, match="there is no function"):
            await jobs.add(definition({"function": "shop.good"}))
    assert (await sql_schema.find(job)).definition.payload == {"function": "shop.good"}


@pytest.fixture
async def keeper(sql_schema: SqlSchema) -> AsyncIterator[str]:
    """A role of somebody's application, which owns a table that nobody else may touch."""
    role = f"keeper_{sql_schema.database.url.rpartition('/')[2].partition('?')[0]}"
    drop = f"drop owned by {role}; drop role {role}"
    await sql_schema.script(f"""
        do $$ begin if exists (select from pg_roles where rolname = '{role}') then {drop};
        end if; end $$;
        create role {role}; grant usage, create on schema shop to {role};
        create table shop.vault (note text); alter table shop.vault owner to {role};
    """)
    yield role
    await sql_schema.script(drop)


async def test_a_function_with_the_rights_of_its_owner_does_what_the_owner_may(
    sql_schema: SqlSchema, keeper: str
) -> None:
    body = "insert into shop.vault (note) values (current_user); return null;"
    await sql_schema.function(body, more="security definer set search_path = shop, pg_temp")
    await sql_schema.script(f"alter function shop.work() owner to {keeper}")
    async with sql_schema.serving():
        run = await sql_schema.closed(await sql_schema.call(policy=ONCE))
        await sql_schema.function("delete from shop.vault; return null;", name="other()")
        job = await sql_schema.add(
            kind="sql_function", payload={"function": "shop.other"}, policy=ONCE
        )
        other = await sql_schema.closed(job)
    assert run.state is RunState.COMPLETED
    assert await sql_schema.value("select note from shop.vault") == keeper
    assert (other.state, other.error) == (RunState.FAILED, "permission denied for table vault")
