"""Functions that disturb: by what they say, what they do to their role, how long they take."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.jobs.model import RunState
from evenbeat.store.runs import sql_functions
from evenbeat.store.runs.sql_login import SQL, SqlLogin
from tests.sql.sql_schema import ONCE, SqlSchema
from tests.sql.test_hostile import quoted

# Texts, errors and results that somebody might choke on, and what is told of them.
ODD = {
    "return (repeat('[', 65) || repeat(']', 65))::jsonb;": "nested deeper than 64 levels",
    "return (repeat('[', 3000) || repeat(']', 3000))::jsonb;": "depth limit exceeded",
    "return to_jsonb(1e400::numeric);": "number is infinity",
    "return to_jsonb(repeat('x', 1000000));": "has 1000002 bytes, and at most",
    "return to_jsonb(repeat('x', 8000000));": "has 8000002 bytes, and at most",
    "raise exception '%', repeat('x', 1000000);": "x" * 10_000,
    "set client_encoding = 'SJIS'; raise exception 'é';": "é",
    "raise exception 'mine' using errcode = 'EB001';": "mine",
    "raise exception 'mine' using errcode = '57P01';": "mine",
    "raise exception 'mine' using errcode = '08006';": "mine",
    "raise exception 'mine' using errcode = '28P01';": "mine",
}


async def test_whatever_a_function_says_its_run_fails_and_the_next_one_is_fine(
    sql_schema: SqlSchema,
) -> None:
    async with sql_schema.serving():
        for body, told in ODD.items():
            failed = await sql_schema.closed(await sql_schema.call(body, policy=ONCE))
            assert failed.state is RunState.FAILED, body
            assert told in (failed.error or ""), body
        fine = await sql_schema.closed(
            await sql_schema.call("""
                set client_encoding = 'LATIN1';
                set transaction read only;
                return to_jsonb('é'::text);
            """)
        )
    assert (fine.state, fine.result) == (RunState.COMPLETED, "é")


@pytest.mark.parametrize("code", ["SH001", "P0004", "57014"])
async def test_a_long_error_is_cut_before_anybody_reads_it(
    sql_schema: SqlSchema, code: str
) -> None:
    await sql_schema.function(f"""
        raise exception '%', repeat('x', 1000000)
            using errcode = '{code}', detail = repeat('y', 1000000), hint = repeat('z', 1000000);
    """)
    with pytest.raises((asyncpg.PostgresError, StoreUnavailable)) as caught:
        async with SqlLogin(sql_schema.database).transaction({}, ignore) as session:
            await sql_functions.call_function(session, "shop.work", {})
    raised: Any = caught.value.__cause__ or caught.value
    assert (raised.sqlstate, raised.message) == (code, "x" * 10_000)
    assert (raised.detail, raised.hint) == ("y" * 10_000, "z" * 10_000)


async def test_the_bell_of_the_nodes_may_be_rung_by_anybody(sql_schema: SqlSchema) -> None:
    async with sql_schema.serving(check_interval=timedelta(minutes=5)):
        job = await sql_schema.call("""
            perform pg_notify('evenbeat_wake', repeat('x', 7000));
            perform pg_notify('evenbeat_wake', each::text) from generate_series(1, 1000) as each;
            return null;
        """)
        assert (await sql_schema.closed(job)).state is RunState.COMPLETED
        job = await sql_schema.call("return null;")
        assert (await sql_schema.closed(job)).state is RunState.COMPLETED


# What every role may do to itself.
SPITE = (
    "password 'mine now'",
    "set default_transaction_read_only = on",
    "set search_path = pg_temp",
    "set role = none",
    "set role = evenbeat_sql",
    "set local_preload_libraries = nowhere",
    "set idle_session_timeout = 1",
)


async def test_a_role_that_was_spoilt_by_a_function_is_put_right(sql_schema: SqlSchema) -> None:
    async with sql_schema.serving():
        for spite in SPITE:
            alter = f"execute format('alter role %I ' || {quoted(spite)}, session_user);"
            for body in (alter, "insert into shop.sale (note) values ('sold');"):
                job = await sql_schema.call(f"{body} return null;", policy=ONCE)
                assert (await sql_schema.closed(job)).state is RunState.COMPLETED, spite
    assert await sql_schema.notes() == ["sold"] * len(SPITE)


async def test_what_a_role_has_set_for_other_databases_is_of_no_account(
    sql_schema: SqlSchema,
) -> None:
    role = (await SqlLogin(sql_schema.database).prepare()).role
    for place, is_spoilt in (("in database postgres", False), ("", True)):
        await sql_schema.script(f"alter role {role} {place} set work_mem = '1MB'")
        assert (
            await sql_schema.database.fetch_value(SQL["has_role_settings"], role=role) is is_spoilt
        )
        await sql_schema.script(f"alter role {role} {place} reset all")


WAIT = """
    create function shop.wait() returns trigger language plpgsql
        as 'begin perform pg_sleep(600); return null; end';
    create constraint trigger wait after insert on shop.sale deferrable initially deferred
        for each row execute function shop.wait();
"""


@pytest.mark.parametrize(
    ("before", "work"),
    [
        ("select 1", "perform pg_sleep(600)"),
        (WAIT, "insert into shop.sale (note) values ('waits for the commit')"),
    ],
    ids=["itself", "a trigger that waits for the commit"],
)
async def test_a_function_cannot_give_more_time_to(
    sql_schema: SqlSchema, before: str, work: str
) -> None:
    """The server alone ends it: where nobody is left to look at a timer."""
    await sql_schema.script(before)
    await sql_schema.function(f"set statement_timeout = 0; {work}; return null;")
    login = SqlLogin(sql_schema.database)

    async def call() -> None:
        async with login.transaction({"statement_timeout": "100ms"}, ignore) as session:
            await sql_functions.call_function(session, "shop.work", {})

    with pytest.raises(StoreUnavailable, match="statement timeout"):
        await call()


def ignore(*_: Any) -> None:
    """What it says does not matter here."""
