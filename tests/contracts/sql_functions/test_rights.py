"""With whose rights a triggered function runs, and what it leaves in its caller's session."""

import contextlib

import asyncpg
import pytest

from tests.contracts.sql_functions.client import CLEANUP, REGISTER, Integrator

HOSTILE = {
    "as a role with few rights": "return to_jsonb(current_user::text);",
    "reset role": "reset role; return to_jsonb(current_user::text);",
    "set role": "set role evenbeat; return to_jsonb(current_user::text);",
    "session authorization": "reset session authorization; return to_jsonb(current_user::text);",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_function_never_has_the_rights_of_the_engine_or_of_the_caller(
    me: Integrator, body: str
) -> None:
    await me.register()
    await me.function(body)
    async with me.session() as owner:
        answer = await owner.fetchval("select trigger_scheduled_job('job')")
    assert answer.get("result", "evenbeat_sql") == "evenbeat_sql", answer


@pytest.mark.parametrize(
    "statement",
    [
        "perform from evenbeat.job",
        "update evenbeat.pulse set token = 1",
        "perform evenbeat_call.call_function('x.y', null)",
        "alter function evenbeat_call.call_function(text, jsonb) security invoker",
        "create function evenbeat_call.f() returns int language sql return 1",
        "create function evenbeat.f() returns int language sql return 1",
        "perform pg_read_file('/etc/passwd')",
    ],
)
async def test_a_function_cannot_touch_the_engine(me: Integrator, statement: str) -> None:
    await me.register()
    await me.function(f"{statement}; return null;")
    async with me.session() as owner:
        answer = await owner.fetchval("select trigger_scheduled_job('job')")
    assert answer["success"] is False
    assert "permission denied" in answer["error"]


async def test_what_a_function_leaves_for_the_commit_is_done_with_its_own_rights(
    me: Integrator,
) -> None:
    await me.sql.execute("""
        create table witness (who text);
        grant insert on witness to public;
        create function tell() returns trigger language plpgsql as
            'begin insert into public.witness values (current_user); return null; end';
        create constraint trigger later after insert on ledger deferrable initially deferred
            for each row execute function tell();
    """)
    await me.register()
    await me.function("insert into ledger (note) values ('x'); return null;")
    async with me.session() as owner:
        answer = await owner.fetchval("select trigger_scheduled_job('job')")
    assert answer["success"], answer
    assert await me.sql.fetchval("select who from witness") == "evenbeat_sql"


async def test_a_function_cannot_leave_a_path_behind_that_leads_astray(me: Integrator) -> None:
    await me.sql.execute("""
        create function public.evil(integer, integer) returns integer language plpgsql as
            'begin raise exception ''astray as %'', current_user; end';
        create operator public.+ (leftarg = integer, rightarg = integer, function = public.evil);
        create function public.blind(text, text) returns boolean language sql return false;
        create operator public.<> (leftarg = text, rightarg = text, function = public.blind);
        create function public.blind(text[], text[]) returns boolean language sql return false;
        create operator public.<> (leftarg = text[], rightarg = text[], function = public.blind);
    """)
    await me.register()
    await me.function("set search_path = public, pg_catalog; return null;")
    async with me.session() as owner:
        before = await owner.fetchval("show search_path")
        answer = await owner.fetchval("select trigger_scheduled_job('job')")
        assert await owner.fetchval("show search_path") == before
    assert "write set local" in answer["error"]
    await me.function("set local search_path = public, pg_catalog; return null;")
    assert (await me.trigger())["success"]


# By which words are read, and another value than that of a new session.
READ_BY = {
    "search_path": "metadata",
    "client_encoding": "SJIS",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
    "backslash_quote": "on",
}


@pytest.mark.parametrize("name", READ_BY)
async def test_a_function_cannot_change_how_its_caller_s_words_are_read(
    me: Integrator, name: str
) -> None:
    await me.register()
    before = await me.sql.fetchval(f"show {name}")
    change = f"set {name} = {READ_BY[name]};"
    for hidden_by in ("", f"set local {name} = {before};"):
        await me.function(f"{change} {hidden_by} return null;")
        assert "how texts are read" in (await me.trigger())["error"], hidden_by
        assert await me.sql.fetchval(f"show {name}") == before
    await me.function(f"set local {name} = {READ_BY[name]}; return null;")
    async with me.sql.transaction():
        assert (await me.trigger())["success"]
        assert await me.sql.fetchval(f"show {name}") == before
    assert await me.sql.fetchval(f"show {name}") == before


async def test_what_the_caller_has_set_for_its_transaction_ends_with_it(me: Integrator) -> None:
    await me.register()
    before = [await me.sql.fetchval(f"show {name}") for name in READ_BY]
    async with me.sql.transaction():
        for name in ("transform_null_equals", "backslash_quote"):
            await me.sql.execute(f"set local {name} = on")
        await me.function("return to_jsonb(current_setting('transform_null_equals'));")
        assert (await me.trigger())["result"] == "on"
        assert await me.sql.fetchval("show backslash_quote") == "on"
    assert [await me.sql.fetchval(f"show {name}") for name in READ_BY] == before


async def test_a_function_may_have_temporary_tables_and_limits_of_its_own(me: Integrator) -> None:
    await me.register()
    await me.function("""
        set local statement_timeout = '5min';
        create temp table heap (id int) on commit drop;
        insert into heap values (1), (2);
        return to_jsonb((select count(*) from heap));
    """)
    async with me.sql.transaction():
        for _ in range(2):
            assert (await me.trigger())["result"] == 2


async def test_a_function_does_not_meet_the_tables_of_its_caller_s_session(me: Integrator) -> None:
    """The functions of the document look for theirs in the session's first."""
    await me.sql.execute(CLEANUP)
    await me.sql.execute(REGISTER)
    await me.sql.execute("create temp table some_temp_table (created_at timestamptz)")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="temporary tables"):
        await me.trigger("daily_cleanup")
    await me.sql.execute("discard temp")
    assert (await me.trigger("daily_cleanup"))["success"]


async def test_a_function_that_became_too_mighty_is_not_called(me: Integrator) -> None:
    await me.register()
    async with me.session() as owner:
        await owner.execute("alter function public.work() security definer")
        await owner.execute("alter function public.work() owner to current_user")
        try:
            answer = await owner.fetchval("select trigger_scheduled_job('job')")
        finally:
            await owner.execute("alter function public.work() owner to integrator")
    assert answer["success"] is False
    assert "SECURITY DEFINER" in answer["error"]


async def test_by_hand_a_function_has_no_more_rights_than_on_schedule(me: Integrator) -> None:
    """Somebody with few rights runs them there, and whoever would call them here has many."""
    await me.register()
    async with me.session() as owner:
        await owner.execute("begin; select evenbeat.admit_sql_role('stranger')")
        await owner.execute(
            "alter function evenbeat_call.call_function(text, jsonb) owner to current_user"
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match=r"on schedule it has those"):
            await owner.execute("select trigger_scheduled_job('job')")


@pytest.mark.parametrize(
    "damage",
    [
        "drop function evenbeat_call.call_function",
        "alter function evenbeat_call.call_function security invoker",
    ],
)
async def test_where_its_caller_is_not_as_it_was_made_nothing_is_called(
    me: Integrator, damage: str
) -> None:
    await me.register()
    async with me.session() as owner:
        await owner.execute(f"begin; {damage}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match=r"not as it was made"):
            await owner.execute("select trigger_scheduled_job('job')")


async def test_a_function_cannot_drop_what_it_is_called_by(me: Integrator) -> None:
    """PostgreSQL itself has no way back through a function that is gone, and undoes all of it."""
    await me.register()
    await me.function("drop owned by evenbeat_sql; return null;")
    with pytest.raises(asyncpg.InternalServerError, match="cache lookup failed"):
        await me.trigger()
    await me.function("return null;")
    assert (await me.trigger())["success"]


async def test_a_function_that_triggers_its_own_job_does_not_run_beside_itself(
    me: Integrator,
) -> None:
    await me.register()
    await me.function(
        "if current_setting('me.inner', true) = 'yes' then return null; end if;"
        " perform set_config('me.inner', 'yes', true);"
        " return public.trigger_scheduled_job('job');",
        more="security definer",
    )
    with pytest.raises(asyncpg.LockNotAvailableError, match="must not trigger it"):
        await me.trigger()
    assert await me.sql.fetchval("select count(*) from metadata.scheduled_job_runs") == 0


# Springs if anybody runs it but the role that functions are called as.
SPRING = """
    create function spring() returns integer language plpgsql as $$ begin
        if current_user <> 'evenbeat_sql' then
            raise exception 'sprung by %', current_user;
        end if;
        return 1;
    end $$;
    create view metadata.items as select public.spring();
    create function put_off() returns trigger language plpgsql as $$ begin
        perform public.spring();
        set constraints all deferred;
        begin
            set transaction read write;
        exception when others then
            raise notice '%', sqlerrm;
        end;
        if new.id < tg_argv[0]::integer then
            insert into public.ledger (note) values (new.note);
        end if;
        return null;
    end $$;
    create constraint trigger once after insert on ledger deferrable initially deferred
        for each row when (new.note = 'once') execute function put_off(2);
    create constraint trigger ever after insert on ledger deferrable initially deferred
        for each row when (new.note = 'ever') execute function put_off(99);
"""
# What a function may leave behind, and the words of its caller that would run it.
TRAPS = {
    "a cursor that is filled at the commit": (
        "execute 'declare trap cursor with hold for select public.spring()';",
        "commit",
    ),
    "a cursor in place of the caller's": (
        "execute 'close mine'; execute 'declare mine cursor for select public.spring()';",
        "fetch all from mine",
    ),
    "a statement in place of the caller's": (
        "execute 'deallocate mine'; execute 'prepare mine as select public.spring()';",
        "execute mine",
    ),
    "a statement, and an error": (
        "execute 'deallocate mine'; execute 'prepare mine as select public.spring()';"
        " assert false;",
        "execute mine",
    ),
    "a statement, and an end that nobody catches": (
        "execute 'deallocate mine'; execute 'prepare mine as select public.spring()';"
        " raise exception 'stop' using errcode = 'query_canceled';",
        "rollback; execute mine",
    ),
    "a statement, and no way back to the caller": (
        "execute 'deallocate mine'; execute 'prepare mine as select public.spring()';"
        " drop owned by evenbeat_sql;",
        "rollback; execute mine",
    ),
    "a path that is hidden until the commit": (
        "set search_path = metadata, public; set local search_path = pg_catalog, pg_temp;",
        "commit; select * from items",
    ),
    "a trigger that puts off another": ("insert into ledger (note) values ('once');", "commit"),
    "a trigger that puts off others": ("insert into ledger (note) values ('ever');", "commit"),
    "a view before the caller's tables": (
        "execute 'create temp view items as select public.spring()';",
        "select * from items",
    ),
    "a trigger that waits for the commit": (
        "execute 'create temp table t (id int)';"
        " execute 'create function pg_temp.f() returns trigger language plpgsql as"
        " ''begin perform public.spring(); return null; end''';"
        " execute 'create constraint trigger t after insert on t deferrable initially deferred"
        " for each row execute function pg_temp.f()'; execute 'insert into t values (1)';",
        "commit",
    ),
}


@pytest.mark.parametrize(("trap", "next_words"), TRAPS.values(), ids=TRAPS)
async def test_nothing_that_a_function_leaves_behind_is_run_by_its_caller(
    me: Integrator, trap: str, next_words: str
) -> None:
    await me.sql.execute(SPRING)
    await me.register()
    await me.function(f"{trap} return null;")
    async with me.session() as owner:
        await owner.execute("set search_path = public; prepare mine as select 1")
        await owner.execute("begin; declare mine cursor for select 1")
        with contextlib.suppress(asyncpg.QueryCanceledError, asyncpg.InternalServerError):
            await owner.fetchval("select trigger_scheduled_job('job')")
        told = ""
        try:
            await owner.execute(next_words)
        except asyncpg.PostgresError as error:
            # What it knew by its name may be gone: then nothing was run, at least.
            told = str(error)
    assert "sprung" not in told


async def test_a_trigger_cannot_put_off_others_for_ever(me: Integrator) -> None:
    await me.sql.execute(SPRING)
    await me.register()
    await me.function("insert into ledger (note) values ('ever'); return null;")
    assert "read-only" in (await me.trigger())["error"]
    await me.function("insert into ledger (note) values ('once'); return null;")
    assert (await me.trigger())["success"]


@pytest.mark.parametrize("own", ["prepare again as select 1", "declare again cursor for select 1"])
async def test_what_a_function_could_replace_unseen_is_not_in_the_same_statement(
    me: Integrator, own: str
) -> None:
    """Of what is prepared PostgreSQL tells when the words came, and these came all at once."""
    await me.register()
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="has prepared another"):
        await me.sql.execute(f"begin; {own}; select trigger_scheduled_job('job')")
    await me.sql.execute(f"rollback; deallocate all; begin; {own}")
    assert (await me.trigger())["success"]


async def test_a_loop_may_trigger_every_job(me: Integrator) -> None:
    await me.register()
    await me.sql.execute("""
        do $$
        declare
            each_one record;
        begin
            for each_one in select name from metadata.scheduled_jobs loop
                perform trigger_scheduled_job(each_one.name);
            end loop;
        end
        $$
    """)
    assert await me.sql.fetchval("select count(*) from metadata.scheduled_job_runs") == 1
