"""Somebody who never leaves SQL: a role, its functions, and the words of the document."""

import contextlib
import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import asyncpg

from evenbeat.engine.jobs.planner import Planner
from evenbeat.handlers.sql_function import SqlFunction
from evenbeat.placement.placer import Placer
from evenbeat.store.database import clock as clocks
from tests.engine.node_runner import NodeRunner
from tests.support.waiting import eventually

# Roles belong to the whole server, and outlive the databases of tests.
ROLES = """
    do $$
    begin
        if not exists (select from pg_roles where rolname = 'integrator') then
            create role integrator;
        end if;
        if not exists (select from pg_roles where rolname = 'stranger') then
            create role stranger;
        end if;
    exception when duplicate_object or unique_violation then
        raise notice 'another worker was first';
    end
    $$
"""
GRANTS = """
    grant usage, create on schema public, metadata to integrator;
    grant insert, update, delete, select on metadata.scheduled_jobs to integrator;
    grant select on metadata.scheduled_job_runs, metadata.river_job, scheduled_job_status
        to integrator;
    grant execute on function trigger_scheduled_job(varchar) to integrator;
"""
TABLES = """
    create table some_temp_table (created_at timestamptz not null);
    create table processed_items (item_id int primary key, processed_at timestamptz);
    create table items (id int primary key, status text not null);
    create table ledger (id bigint generated always as identity, note text);
    grant insert, select on ledger to evenbeat_sql;
"""
AWAY = """
    drop owned by integrator;
"""
# As the document has it.
CLEANUP = """
    CREATE OR REPLACE FUNCTION run_daily_cleanup()
    RETURNS JSONB
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path = metadata, public
    AS $$
    DECLARE
        v_deleted INT;
    BEGIN
        DELETE FROM some_temp_table WHERE created_at < NOW() - INTERVAL '30 days';
        GET DIAGNOSTICS v_deleted = ROW_COUNT;

        RETURN jsonb_build_object(
            'success', true,
            'message', format('Deleted %s old records', v_deleted),
            'details', jsonb_build_object('deleted_count', v_deleted)
        );
    END;
    $$;
"""
REGISTER = """
    INSERT INTO metadata.scheduled_jobs (name, function_name, schedule, timezone, description)
    VALUES (
        'daily_cleanup',
        'run_daily_cleanup',
        '0 3 * * *',           -- 3 AM daily
        'America/New_York',    -- Eastern time
        'Clean up temporary records older than 30 days'
    );
"""


class Integrator(NodeRunner):
    """One connection of such a person, beside nodes of ours."""

    sql: Any

    @contextlib.asynccontextmanager
    async def present(self) -> AsyncGenerator[None]:
        async with self.session() as owner:
            await owner.execute(ROLES)
            await owner.execute(GRANTS)
        try:
            async with self.session("integrator") as self.sql:
                await self.sql.execute(TABLES)
                yield
        finally:
            async with self.session() as owner:
                await owner.execute(AWAY)

    @contextlib.asynccontextmanager
    async def session(self, role: str | None = None) -> AsyncGenerator[Any]:
        """A connection of its own; without a role it is the engine's."""
        connection: Any = await asyncpg.connect(self.database.url)
        try:
            if role is not None:
                await connection.execute(f"set session authorization {role}")
            await connection.set_type_codec(
                "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
            )
            yield connection
        finally:
            await connection.close()

    @contextlib.asynccontextmanager
    async def serving(self, **changes: Any) -> AsyncGenerator[None]:
        """A node that serves SQL functions."""
        handler = SqlFunction()
        await handler.serve(self.database, self.settings)
        async with self.node(handler, **changes):
            yield

    async def function(self, body: str, name: str = "work()", more: str = "") -> None:
        await self.sql.execute(
            f"create or replace function {name} returns jsonb language plpgsql {more}"
            f" as $f$ begin {body} end $f$"
        )

    async def register(self, schedule: str = "0 3 * * *", **more: Any) -> int:
        """A job that calls work(); its id."""
        await self.function("""return '{"success": true, "message": "done"}';""")
        columns = {"name": "job", "function_name": "work", "schedule": schedule} | more
        return await self.sql.fetchval(
            f"insert into metadata.scheduled_jobs ({', '.join(columns)})"
            f" values ({', '.join(f'${place + 1}' for place in range(len(columns)))}) returning id",
            *columns.values(),
        )

    async def trigger(self, name: str = "job") -> dict[str, Any]:
        return await self.sql.fetchval("select trigger_scheduled_job($1)", name)

    async def row(self, name: str = "job") -> dict[str, Any] | None:
        found = await self.sql.fetchrow(
            "select * from metadata.scheduled_jobs where name = $1", name
        )
        return found and dict(found)

    async def pulse(self, name: str = "job") -> dict[str, Any]:
        """Where the job of this name stands, by the engine's word."""
        async with self.session() as owner:
            return dict(
                await owner.fetchrow(
                    "select pulse.*, job.version, job.uid, job.payload, job.timetable"
                    " from evenbeat.job join evenbeat.pulse using (id)"
                    " where job.name = $1 and job.deleted_at is null",
                    name,
                )
            )

    async def clock_on(self, **duration: float) -> None:
        """Move the clock on, for every process."""
        now = await clocks.now(self.database)
        await clocks.set_test_clock(self.database, now + timedelta(**duration))

    async def at_rest(self, name: str = "job") -> dict[str, Any]:
        """Where it stands once nothing of it is due or running."""

        async def look() -> dict[str, Any] | None:
            found, now = await self.pulse(name), await clocks.now(self.database)
            is_due = found["due_at"] is not None and found["due_at"] <= now
            return None if is_due or found["token"] is not None else found

        return await eventually(look, "rest")

    async def planned(self, name: str = "job") -> dict[str, Any]:
        """The same, once a node has worked out its next beat."""

        async def look() -> dict[str, Any] | None:
            async with self.session() as owner:
                if await owner.fetchval("select exists (select from evenbeat.unplanned)"):
                    return None
            return await self.pulse(name)

        return await eventually(look, "a plan")

    async def plan(self) -> None:
        """What a node does within a second."""
        await Planner(self.database, Placer(self.database)).turn()
