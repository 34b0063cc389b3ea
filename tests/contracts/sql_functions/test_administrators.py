"""Who may read, write and trigger: administrators, and whoever signs in."""

import json
import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from tests.contracts.sql_functions.client import Integrator
from tests.support import databases

# As a database with sign-in has it: the settings of a request say who is there.
IS_ADMIN = """
    create function {schema}.is_admin() returns boolean language sql stable
    return coalesce(current_setting('request.jwt.claims', true)::jsonb ? 'admin', false)
"""
ADMIN = """set request.jwt.claims = '{"admin": true}'"""
TRIGGER = "select trigger_scheduled_job('job')"
FUNCTIONS = "select * from schema_scheduled_functions"


@pytest.fixture
async def signed_in(me: Integrator) -> AsyncIterator[Any]:
    """A session of somebody who may trigger, and nothing else."""
    await me.register()
    async with me.session() as owner, me.session("stranger") as stranger:
        await owner.execute("grant execute on function trigger_scheduled_job(varchar) to stranger")
        yield stranger
        await owner.execute("drop owned by stranger")


async def test_whoever_may_execute_the_trigger_is_an_administrator(signed_in: Any) -> None:
    assert (await signed_in.fetchval(TRIGGER))["job_success"]


@pytest.mark.parametrize("schema", ["metadata", "public"])
async def test_where_the_database_knows_its_administrators_only_they_trigger(
    me: Integrator, signed_in: Any, schema: str
) -> None:
    await me.sql.execute(IS_ADMIN.format(schema=schema))
    only = "Only administrators can trigger scheduled jobs"
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match=only) as caught:
        await signed_in.fetchval(TRIGGER)
    assert "is_admin()" in str(caught.value.hint)
    await signed_in.execute(ADMIN)
    assert (await signed_in.fetchval(TRIGGER))["job_success"]


async def test_whoever_may_change_jobs_is_not_asked(me: Integrator) -> None:
    await me.register()
    await me.sql.execute(IS_ADMIN.format(schema="public"))
    assert (await me.trigger())["job_success"]


async def test_an_error_of_that_function_is_no_yes(me: Integrator, signed_in: Any) -> None:
    await me.sql.execute("""
        create function public.is_admin() returns boolean language plpgsql as $$ begin
            raise sqlstate 'EB002';
        end $$
    """)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="Only administrators"):
        await signed_in.fetchval(TRIGGER)


async def test_what_that_function_does_besides_is_undone(me: Integrator, signed_in: Any) -> None:
    """It runs in the session of whoever calls, on the way to the engine's rights."""
    await me.sql.execute("""
        create function public.is_admin() returns boolean language plpgsql as $$ begin
            set search_path = public;
            insert into ledger (note) values (current_user);
            create temp table pulse (id bigint);
            return null;
        end $$
    """)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="Only administrators"):
        await signed_in.fetchval(TRIGGER)
    await me.sql.execute("""
        create or replace function public.is_admin() returns boolean language plpgsql as $$ begin
            set search_path = public;
            insert into ledger (note) values (current_user);
            create temp table pulse (id bigint);
            execute 'prepare trap as select 1';
            return true;
        end $$
    """)
    before = await signed_in.fetchval("show search_path")
    assert (await signed_in.fetchval(TRIGGER))["job_success"]
    assert await signed_in.fetchval("show search_path") == before
    with pytest.raises(asyncpg.InvalidSQLStatementNameError):
        await signed_in.execute("execute trap")
    assert await me.sql.fetchval("select count(*) from ledger") == 0


async def test_who_only_triggers_has_written_nothing_before(me: Integrator, signed_in: Any) -> None:
    """What waits for the end of their transaction would be done as the role of functions."""
    await me.sql.execute("grant insert on ledger to stranger")
    async with signed_in.transaction():
        await signed_in.execute("insert into ledger (note) values ('mine')")
        with pytest.raises(asyncpg.ActiveSQLTransactionError, match="before anything else"):
            async with signed_in.transaction():
                await signed_in.fetchval(TRIGGER)
    async with signed_in.transaction():
        assert (await signed_in.fetchval(TRIGGER))["job_success"]


async def test_administrators_see_which_functions_are_scheduled(me: Integrator) -> None:
    await me.register("0 3 * * *", timezone="Europe/Berlin", description="of the job")
    await me.trigger()
    async with me.session() as owner:
        [row] = await owner.fetch(FUNCTIONS)
        assert row["last_run_at"] is not None
        assert dict(row) | {"last_run_at": None} == {
            "function_name": "work",
            "display_name": "Work",
            "description": "of the job",
            "category": None,
            "job_name": "job",
            "cron_schedule": "0 3 * * *",
            "timezone": "Europe/Berlin",
            "schedule_enabled": True,
            "last_run_at": None,
            "last_run_success": True,
            "success_rate_percent": 100,
            "is_registered": True,
        }
        await me.function("return null;", "public.forget_old_items()")
        await me.sql.execute("comment on function forget_old_items() is 'of the function'")
        await me.sql.execute(
            "update metadata.scheduled_jobs set function_name = 'public.forget_old_items'"
        )
        [row] = await owner.fetch(FUNCTIONS)
        assert (row["display_name"], row["description"]) == ("Forget Old Items", "of the function")
        await me.sql.execute("drop function forget_old_items()")
        [row] = await owner.fetch(FUNCTIONS)
        assert (row["function_name"], row["is_registered"]) == ("public.forget_old_items", False)


@pytest.fixture
async def visitor(postgres: EmbeddedServer) -> AsyncIterator[Any]:
    """Somebody who has signed in to a database that had a role for that when it was migrated."""
    name = f"signed_in_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    admin: Any = await asyncpg.connect(postgres.url("postgres"))
    try:
        await admin.execute("create role authenticated")
    except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
        assert await admin.fetchval("select true from pg_roles where rolname = 'authenticated'")
    await databases.create(postgres.url("postgres"), name)
    await migrations.migrate(postgres.url(name))
    visitor: Any = await asyncpg.connect(postgres.url(name))
    await visitor.execute("""
        create function public.work() returns jsonb language sql return '{"a": 1}'::jsonb;
        insert into metadata.scheduled_jobs (name, function_name, schedule)
        values ('job', 'work', '0 3 * * *');
        set session authorization authenticated;
    """)
    yield visitor
    await visitor.close()
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


async def test_whoever_signs_in_reads_jobs_runs_and_status_and_triggers_but_writes_nothing(
    visitor: Any,
) -> None:
    assert json.loads(await visitor.fetchval(TRIGGER))["job_success"]
    for table in ("metadata.scheduled_jobs", "metadata.scheduled_job_runs", "scheduled_job_status"):
        assert len(await visitor.fetch(f"select * from {table}")) == 1
        for write in (f"delete from {table}", f"update {table} set id = 1"):
            with pytest.raises(asyncpg.PostgresError) as caught:
                await visitor.execute(write)
            assert caught.value.sqlstate in ("42501", "55000"), "denied, or no view to write to"
    for closed in (
        "insert into metadata.scheduled_jobs (name, function_name, schedule) values ('', '', '')",
        FUNCTIONS,
        "select * from metadata.river_job",
        "select * from evenbeat.job",
        "select * from evenbeat.sql_job",
        "select evenbeat_call.call_function('public.work', null)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await visitor.execute(closed)
