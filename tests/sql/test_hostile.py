"""Functions that mean harm gain nothing: neither rights nor tables nor tokens."""

import json
from pathlib import Path

import asyncpg
import pytest

from evenbeat import store
from evenbeat.core.jobs.model import RunState
from tests.sql.sql_schema import SqlSchema

WHO = "return to_jsonb(array[session_user::text, current_user::text]);"


def tries(*statements: str) -> str:
    """A function that tries each of these, and tells the code of what it met."""
    attempts = [
        f"""begin
            execute {quoted(statement)};
            told := told || '"done"';
        exception when others then
            told := told || to_jsonb(sqlstate);
        end;"""
        for statement in statements
    ]
    return f"""
        declare told jsonb := '[]';
        begin {"".join(attempts)} return told; end;
    """


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize(
    "escape",
    [
        "reset role;",
        "reset session authorization;",
        "execute 'set session authorization default';",
        "execute 'set role none';",
    ],
)
async def test_no_way_leads_back_to_the_engine(sql_schema: SqlSchema, escape: str) -> None:
    run = await sql_schema.outcome(escape + WHO)
    role = await sql_schema.value("select role::text from evenbeat.sql_login")
    assert (run.state, run.result) == (RunState.COMPLETED, [role, role])


async def test_the_tables_of_the_engine_are_closed(sql_schema: SqlSchema) -> None:
    tables = await sql_schema.fetch(
        "select relname, relkind from pg_class where relnamespace = 'evenbeat'::regnamespace"
        " and relkind in ('r', 'v', 'S') order by 1"
    )
    assert len(tables) > 20
    run = await sql_schema.outcome(
        tries(*(f"select * from evenbeat.{table['relname']}" for table in tables))
    )
    assert run.result == ["42501"] * len(tables)


BAIT = "create trigger t after delete on bait for each row execute function evenbeat.%s()"
# By what it would lead to, each of which must be denied.
DENIED = {
    "to be somebody else": (
        "set role evenbeat",
        "set local role evenbeat",
        "set session authorization evenbeat",
        "set local session authorization evenbeat",
        "create role thief superuser login",
        "alter role evenbeat password 'guess'",
        "alter role evenbeat_sql set work_mem = 1",
        "grant evenbeat to current_user",
        "alter role current_user superuser",
        "alter role current_user connection limit 0",
        "alter role current_user valid until '2000-01-01'",
    ),
    "to what is the engine's": (
        "update evenbeat.pulse set next_beat_at = null",
        "delete from evenbeat.run",
        "create table evenbeat.mine (id int)",
        "create function evenbeat.settle_run() returns int language sql as 'select 1'",
        "create trigger mine after update on evenbeat.pulse execute function shop.work()",
        "drop function evenbeat.call_function(text, jsonb)",
        "alter function evenbeat.clock() volatile",
        "lock table evenbeat.pulse",
        "select evenbeat.make_sql_login()",
        "select evenbeat.admit_sql_role('public')",
        "select evenbeat.make_settle_run('', '')",
        "select nextval('evenbeat.run_id')",
        "select evenbeat.enqueue('echo')",
        "reassign owned by evenbeat to current_user",
        "drop owned by evenbeat",
        "alter default privileges for role evenbeat grant all on tables to public",
    ),
    "to the face for people": (
        "select public.trigger_scheduled_job('x')",
        "select * from metadata.scheduled_jobs",
        "select * from public.schema_scheduled_functions",
        "select evenbeat.check_caller()",
        "select evenbeat_call.is_admin()",
    ),
    "to the server": (
        "select pg_read_file('PG_VERSION')",
        "select pg_ls_dir('.')",
        "copy shop.sale from program 'id'",
        "copy shop.sale to '/tmp/stolen'",
        "select lo_import('/etc/passwd')",
        "load '/tmp/evil.so'",
        "set session_replication_role = replica",
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'evenbeat'",
        "select pg_cancel_backend(pid) from pg_stat_activity where usename = 'evenbeat'",
        "create event trigger mine on ddl_command_start execute function shop.work()",
        "select rolpassword from pg_authid",
        "lock table pg_class",
        "create language mine handler plpgsql_call_handler",
        "create foreign data wrapper mine",
        "create publication mine for all tables",
        "select pg_create_physical_replication_slot('mine')",
        "select pg_reload_conf()",
        "create cast (text as bigint[]) with inout",
        "create operator class mine default for type int4 using btree as storage int4",
    ),
    # They have the rights of the engine, and would take another table's rows for ours.
    "to our triggers on other tables": tuple(
        BAIT % name for name in ("carry_out_sql", "check_sql_job", "show_changed_job")
    ),
}


@pytest.mark.parametrize("statements", DENIED.values(), ids=DENIED)
async def test_no_way_leads(sql_schema: SqlSchema, statements: tuple[str, ...]) -> None:
    run = await sql_schema.outcome("create temp table bait (job_id bigint);" + tries(*statements))
    told = dict(zip(statements, run.result, strict=True))
    assert told == dict.fromkeys(statements, "42501")


async def test_its_transaction_is_not_the_function_s_to_end(sql_schema: SqlSchema) -> None:
    ends = ("commit", "rollback", "savepoint mine", "prepare transaction 'mine'")
    assert (await sql_schema.outcome(tries(*ends))).result == ["0A000"] * len(ends)


async def test_no_function_with_the_rights_of_the_engine_is_for_everybody(
    sql_schema: SqlSchema,
) -> None:
    rows = await sql_schema.fetch(
        """
        select pg_proc.oid::regprocedure::text as name
        from pg_proc
        join pg_namespace on pg_namespace.oid = pg_proc.pronamespace
        cross join lateral aclexplode(
            coalesce(pg_proc.proacl, acldefault('f', pg_proc.proowner))
        ) as granted
        where pg_namespace.nspname in ('evenbeat', 'evenbeat_call', 'metadata')
          and pg_proc.prosecdef
          and granted.grantee = 0
          and pg_proc.proname <> 'clock'
        """
    )
    assert [row["name"] for row in rows] == []


def test_nothing_waits_for_a_lock_that_every_function_can_take() -> None:
    """Of those that are nobody's. What is migrated waits for one, before there are any tables."""
    files = list(Path(store.__file__).parent.rglob("*.sql"))
    asking = [path.name for path in files if "pg_advisory" in path.read_text()]
    assert len(files) > 40
    assert asking == ["migrations.sql"]


async def test_a_guessed_token_ends_no_run(
    sql_schema: SqlSchema, other_session: asyncpg.Connection
) -> None:
    """Its own run, with every token but the right one; and all of it is one transaction."""
    arguments = await sql_schema.value(
        "select pg_get_function_identity_arguments(oid) from pg_proc where proname = 'settle_run'"
        " and pronamespace = 'evenbeat'::regnamespace"
    )
    kinds = [each.strip() for each in arguments.split(",")]

    def guess(token: str) -> str:
        given = ["(select array_agg(n) from generate_series(1, 1000) n)", f"array[{token}]"]
        values = given + ["'{}'"] * (len(kinds) - 2)
        cast = (f"{value}::{kind}" for value, kind in zip(values, kinds, strict=True))
        return f"select * from evenbeat.settle_run({', '.join(cast)})"

    run = await sql_schema.outcome(
        tries(guess("0"), guess("null"), guess("-1"), guess("4611686018427"))
    )
    assert (run.state, run.result) == (RunState.COMPLETED, ["EB001"] * 4)


async def test_the_token_is_nowhere_to_be_seen(sql_schema: SqlSchema) -> None:
    """Not in the text of a statement, nor in a setting, nor in what is prepared or locked."""
    body = """
        return jsonb_build_object(
            'settings', (select jsonb_agg(setting) from pg_settings),
            'mine', (select jsonb_agg(a) from pg_stat_activity a),
            'prepared', (select jsonb_agg(p) from pg_prepared_statements p),
            'cursors', (select jsonb_agg(c) from pg_cursors c),
            'query', current_query(),
            'held', (select token from shop.token)
        );
    """
    await sql_schema.script(
        "create view shop.token as select token::text from evenbeat.pulse where token > 0;"
        "grant select on shop.token to evenbeat_sql"
    )
    run = await sql_schema.outcome(body)
    seen = dict(run.result)
    token = seen.pop("held")
    assert len(token) > 10
    assert token not in json.dumps(seen)


@pytest.mark.parametrize("timing", ["initially deferred", "initially immediate"])
async def test_a_trigger_that_waits_for_the_commit_fails_the_run_like_any_error(
    sql_schema: SqlSchema, timing: str
) -> None:
    await sql_schema.script(f"""
        create function shop.refuse() returns trigger language plpgsql
        as $$ begin raise exception 'not at the end either'; end $$;
        create constraint trigger refuse after insert on shop.sale
        deferrable {timing} for each row execute function shop.refuse();
    """)
    run = await sql_schema.outcome("insert into shop.sale (note) values ('never'); return null;")
    assert (run.state, run.error) == (RunState.FAILED, "not at the end either")
    assert await sql_schema.notes() == []


async def test_a_trigger_that_defers_once_more_is_met_at_the_commit(sql_schema: SqlSchema) -> None:
    """After the end of the run was written: it is undone with the rest, and the error is kept.

    What it may do at that moment is what the login may."""
    await sql_schema.script("""
        create function shop.refuse() returns trigger language plpgsql as $$ begin
            if new.note = 'again' then
                execute 'set constraints all deferred';
                insert into shop.sale (note) values ('last');
            else
                perform 1 from evenbeat.job;
            end if;
            return null;
        end $$;
        create constraint trigger refuse after insert on shop.sale
        deferrable initially deferred for each row execute function shop.refuse();
    """)
    run = await sql_schema.outcome("insert into shop.sale (note) values ('again'); return null;")
    assert (run.state, run.error) == (RunState.FAILED, "permission denied for table job")
    assert await sql_schema.notes() == []
    assert await sql_schema.value("select count(*) from evenbeat.run") == 1


async def test_a_cursor_that_outlives_its_transaction_reads_nothing(sql_schema: SqlSchema) -> None:
    """Such a cursor is filled at the commit, by whoever the session belongs to then."""
    run = await sql_schema.outcome(
        "execute 'declare loot cursor with hold for select shop.peek()'; return null;"
    )
    assert run.state is RunState.FAILED
    await sql_schema.script("""
        create function shop.peek() returns bigint language plpgsql
        as $$ begin return (select count(*) from evenbeat.job); end $$;
    """)
    run = await sql_schema.outcome(
        "execute 'declare loot cursor with hold for select shop.peek()'; return null;"
    )
    assert (run.state, run.error) == (RunState.FAILED, "permission denied for table job")


async def test_temporary_objects_do_not_stand_in_for_ours(sql_schema: SqlSchema) -> None:
    body = """
        create temp table pulse (id bigint); create temp table run (id bigint);
        create temp table job (id bigint); create temp table text (id bigint);
        create temp table jsonb (id bigint); create temp table pg_proc (id bigint);
        create function pg_temp.settle_run() returns int language sql as 'select 1';
        create function pg_temp.statement_timestamp() returns timestamptz
            language sql as $$ select '2001-01-01Z'::timestamptz $$;
        set search_path = pg_temp, pg_catalog;
        insert into shop.sale (note) values ('sold');
        return '{"fine": true}';
    """
    run = await sql_schema.outcome(body)
    assert (run.state, run.result) == (RunState.COMPLETED, {"fine": True})
    assert run.finished_at is not None
    assert run.finished_at.year == 2030
    assert await sql_schema.notes() == ["sold"]


async def test_a_function_finds_its_own_schema_and_what_is_hidden_there_by_nobody(
    sql_schema: SqlSchema,
) -> None:
    run = await sql_schema.outcome("""
        create temp table sale (note text);
        insert into sale (note) values ('in the shop');
        return to_jsonb(current_setting('search_path'));
    """)
    assert run.result == "pg_catalog, shop, pg_temp"
    assert await sql_schema.notes() == ["in the shop"]


async def test_a_procedure_cannot_commit_half_of_it(sql_schema: SqlSchema) -> None:
    await sql_schema.script("""
        create procedure shop.halve() language plpgsql as $$ begin
            insert into shop.sale (note) values ('half'); commit;
        end $$;
    """)
    run = await sql_schema.outcome("call shop.halve(); return null;")
    assert (run.state, run.error) == (RunState.FAILED, "invalid transaction termination")
    assert await sql_schema.notes() == []


async def test_nothing_of_a_session_is_met_by_the_next_run(sql_schema: SqlSchema) -> None:
    leaves = """
        perform pg_advisory_lock(4711);
        create temp table mine (id int);
        execute 'listen gossip';
        execute 'prepare mine as select 1';
        execute 'declare mine cursor with hold for select 1';
        perform set_config('shop.mine', 'here', false);
        set statement_timeout = 0;
        return null;
    """
    looks = """
        return jsonb_build_object(
            'locks', (select count(*) from pg_locks where locktype = 'advisory'
                and database = (select oid from pg_database where datname = current_database())),
            'tables', (select count(*) from pg_class
                where relnamespace = pg_my_temp_schema() and relname = 'mine'),
            'channels', (select count(*) from pg_listening_channels()),
            'cursors', (select count(*) from pg_cursors where name = 'mine'),
            'prepared', (select count(*) from pg_prepared_statements where name = 'mine'),
            'setting', current_setting('shop.mine', true)
        );
    """
    assert (await sql_schema.outcome(leaves)).state is RunState.COMPLETED
    run = await sql_schema.outcome(looks)
    assert run.result == {
        "locks": 0,
        "tables": 0,
        "channels": 0,
        "cursors": 0,
        "prepared": 0,
        "setting": None,
    }


async def test_a_function_that_gets_the_engine_s_rights_after_its_job_was_written_is_not_called(
    sql_schema: SqlSchema,
) -> None:
    job = await sql_schema.call("insert into shop.sale (note) values ('never'); return null;")
    await sql_schema.script("alter function shop.work() security definer")
    async with sql_schema.serving():
        run = await sql_schema.closed(job)
    assert run.state is RunState.FAILED
    assert "is SECURITY DEFINER and belongs to evenbeat" in (run.error or "")
    assert await sql_schema.notes() == []
