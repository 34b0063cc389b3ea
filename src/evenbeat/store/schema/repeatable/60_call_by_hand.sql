-- version: 1
-- Calling a job's function in the session of a client, with the rights of evenbeat_sql, and leaving
-- that session as it was. Decision 26 lists the ways by which a function could otherwise get at the
-- client's rights.

-- The settings that decide what the next statement of a session means.
create or replace function evenbeat.reading() returns text[]
language sql
return array[
    pg_catalog.current_setting('search_path'),
    pg_catalog.current_setting('standard_conforming_strings'),
    pg_catalog.current_setting('backslash_quote'),
    pg_catalog.current_setting('transform_null_equals'),
    pg_catalog.current_setting('client_encoding')
];

-- Calls a function, and then fires the triggers that it deferred to the end of the transaction.
-- PostgreSQL puts the five settings back when this returns, except one that the function changed for
-- the whole session by SET. A SET LOCAL after it would hide that until the commit. So all five are
-- given another value at the end: a setting that is not back afterwards was SET by the function.
create or replace function evenbeat.call_to_the_end(function text, arguments jsonb, reading text[])
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
set standard_conforming_strings = on
set backslash_quote = safe_encoding
set transform_null_equals = off
set client_encoding = 'SQL_ASCII'
as $$
declare
    outcome jsonb;
begin
    perform
        set_config('standard_conforming_strings', reading[2], true),
        set_config('backslash_quote', reading[3], true),
        set_config('transform_null_equals', reading[4], true),
        set_config('client_encoding', reading[5], true);
    outcome := evenbeat.call_function(function, arguments);
    set constraints all immediate;
    -- A deferred trigger may have deferred another one, which would run at the commit, up to
    -- PostgreSQL 17 with the rights of the client. It is fired here too. It may write nothing, so
    -- that it can defer no more.
    begin
        set transaction read only;
        set constraints all immediate;
    -- The block needs an exception clause: only a subtransaction is read only for itself alone.
    exception when others then
        raise;
    end;
    -- Until here the function chose the search_path, and may have put operators of its own there.
    perform pg_catalog.set_config('search_path', 'pg_catalog', true);
    perform
        set_config('search_path', case reading[1] when 'off' then 'on' else 'off' end, true),
        set_config(
            'standard_conforming_strings', case reading[2] when 'off' then 'on' else 'off' end, true
        ),
        set_config('backslash_quote', case reading[3] when 'off' then 'on' else 'off' end, true),
        set_config(
            'transform_null_equals', case reading[4] when 'off' then 'on' else 'off' end, true
        ),
        set_config(
            'client_encoding',
            case reading[5] when 'SQL_ASCII' then 'UTF8' else 'SQL_ASCII' end, true
        );
    return outcome;
end
$$;

-- An administrator may have given these two functions to a role that the engine is no member of
-- (docs/how-to/schedule-sql-functions.md). The engine cannot replace them then, but drop them: it owns their schema. The
-- administrator must give the new ones to that role again; a warning below says so.
do $$
declare
    each_one regprocedure;
begin
    for each_one in
        select oid from pg_proc
        where pronamespace = 'evenbeat_call'::regnamespace
          and not pg_has_role(proowner, 'usage')
    loop
        execute format('drop function %s', each_one);
    end loop;
end
$$;

-- Calls a person's function with the rights of evenbeat_sql, which owns this one: neither with the
-- engine's nor with the client's. The function cannot change roles here. Triggers that it deferred
-- are fired before the rights change back.
create or replace function evenbeat_call.call_function(
    function text, arguments jsonb, out outcome jsonb, out error text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- As on schedule; its caller waits for other things, and not so long.
set lock_timeout = '30s'
as $$
declare
    fault text;
    -- To compare: the function must not change what the client's next statement means.
    before constant text[] := evenbeat.reading();
begin
    outcome := evenbeat.call_to_the_end(function, arguments, before);
    -- No operator here: the function may have put one of its own on the search_path.
    if pg_catalog.array_ne(before, evenbeat.reading()) then
        raise exception 'the function changes search_path, or how texts are read, for the whole '
            'session: write set local, or make it a setting of the function';
    end if;
    -- Else the client's next statement could mean a temporary table or view of the function.
    discard temp;
    fault := evenbeat.fault_of_result(outcome);
    if fault is not null then
        raise exception '%', fault using errcode = 'program_limit_exceeded';
    end if;
-- OTHERS leaves out assert_failure, and a failed assertion of the function is its error too.
exception when others or assert_failure then
    outcome := null;
    error := left(sqlerrm, 10000);
end
$$;

-- Asks the function is_admin() of the database about the client. Where there is none, every client
-- that may execute the trigger is an administrator. What is_admin() did besides is undone.
create or replace function evenbeat_call.is_admin() returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    question constant text := (
        select format('select %I.is_admin()', pg_namespace.nspname)
        from pg_proc
        join pg_namespace on pg_namespace.oid = pg_proc.pronamespace
        where pg_proc.proname = 'is_admin'
          and pg_proc.pronargs = 0
          and pg_proc.prokind = 'f'
          and not pg_proc.proretset
          and pg_proc.prorettype = 'boolean'::regtype
          and pg_namespace.nspname in ('metadata', 'public')
        order by pg_namespace.nspname
        limit 1
    );
    -- Stays null if is_admin() itself raises our code: that is no answer.
    answer boolean;
begin
    if question is not null then
        execute question into answer;
        raise sqlstate 'EB002';
    end if;
    return true;
exception when sqlstate 'EB002' then
    return coalesce(answer, false);
end
$$;

revoke execute on function
    evenbeat_call.call_function(text, jsonb),
    evenbeat_call.is_admin()
from public;

do $$
begin
    if not exists (select from pg_roles where rolname = 'evenbeat_sql') then
        return;
    end if;
    -- For the moment of the change: the new owner of a function needs CREATE on its schema.
    grant create on schema evenbeat_call to evenbeat_sql;
    begin
        alter function evenbeat_call.call_function(text, jsonb) owner to evenbeat_sql;
    exception when insufficient_privilege then
        -- The engine made the role. It may grant the role to itself, and must, to act for it.
        execute format('grant evenbeat_sql to %I', current_user);
        alter function evenbeat_call.call_function(text, jsonb) owner to evenbeat_sql;
    end;
    alter function evenbeat_call.is_admin() owner to evenbeat_sql;
    revoke create on schema evenbeat_call from evenbeat_sql;
exception when insufficient_privilege then
    raise warning 'the role evenbeat_sql cannot be given what is in evenbeat_call: see docs/how-to/schedule-sql-functions.md';
end
$$;

-- The prepared statements and cursors of the session, and how to remove each. If a function left one
-- behind under a name of the client's, the client would run it with its own rights.
create or replace function evenbeat.known_to_session() returns table (known text, forget text)
language sql
as $$
    select
        row(statements.name, statements.statement, statements.prepare_time)::text,
        format('deallocate %I', statements.name)
    from pg_prepared_statements as statements
    union all
    select
        row(cursors.name, cursors.statement, cursors.creation_time)::text,
        format('close %I', cursors.name)
    from pg_cursors as cursors
$$;

create or replace function evenbeat.forget_all_but(known_before text[]) returns void
language plpgsql
as $$
declare
    each_one text;
begin
    foreach each_one in array array(
        select forget from evenbeat.known_to_session() where known <> all (known_before)
    ) loop
        execute each_one;
    end loop;
end
$$;

-- Calls the function of a job, and removes what it prepared or opened in the session.
create or replace function evenbeat.call_by_hand(
    payload jsonb, out outcome jsonb, out error text, out duration_ms integer
)
language plpgsql
as $$
declare
    known_before constant text[] := array(select known from evenbeat.known_to_session());
    -- The real clock, in tests too: this measures a duration.
    began constant timestamptz := clock_timestamp();
begin
    begin
        select called.outcome, called.error into outcome, error
        from evenbeat_call.call_function(payload ->> 'function', payload -> 'arguments') as called;
        duration_ms := round(1000 * extract(epoch from clock_timestamp() - began));
        perform evenbeat.forget_all_but(known_before);
    -- An error undoes everything else, but PREPARE is not undone.
    exception when others or assert_failure or query_canceled then
        perform evenbeat.forget_all_but(known_before);
        raise;
    end;
end
$$;
