-- version: 1
-- Call.

-- The settings by which the words of a session are read.
create or replace function evenbeat.reading() returns text[]
language sql
return array[
    pg_catalog.current_setting('search_path'),
    pg_catalog.current_setting('standard_conforming_strings'),
    pg_catalog.current_setting('backslash_quote'),
    pg_catalog.current_setting('transform_null_equals'),
    pg_catalog.current_setting('client_encoding')
];

-- Calls a function, and does what it has left for the end of the transaction, so that whatever it
-- changes of the settings above for itself is as before when this returns. What it changes for the
-- session PostgreSQL leaves so, even where it is hidden behind a SET LOCAL until the commit: hence
-- all five are something else at the end, which only then remains.
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
    -- A trigger may have put off another, which up to PostgreSQL 17 whoever commits would run. It
    -- is fired here as well, and may write nothing: so that it can put off no more.
    begin
        set transaction read only;
        set constraints all immediate;
    -- Only what could catch an error is read only for itself alone.
    exception when others then
        raise;
    end;
    -- The path is the function's until here, and on it an operator may be anybody's.
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
    -- By these the caller's next words are read.
    before constant text[] := evenbeat.reading();
begin
    outcome := evenbeat.call_to_the_end(function, arguments, before);
    -- No operator here: on a path of the function's choice it may be anybody's.
    if pg_catalog.array_ne(before, evenbeat.reading()) then
        raise exception 'the function changes search_path, or how texts are read, for the whole '
            'session: write set local, or make it a setting of the function';
    end if;
    -- Else the caller's next words could mean a table or a view of the function's.
    discard temp;
    fault := evenbeat.fault_of_result(outcome);
    if fault is not null then
        raise exception '%', fault using errcode = 'program_limit_exceeded';
    end if;
-- "Others" are not quite all: what an assertion of the function says is its error as well.
exception when others or assert_failure then
    outcome := null;
    error := left(sqlerrm, 10000);
end
$$;

-- Whether a function is_admin() of the database says so of whoever calls; where there is none,
-- whoever may execute the trigger is one. Whatever it did besides is undone.
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
    -- An error of its own with our code is no answer.
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
    grant usage on schema metadata to evenbeat_sql;
    -- For this one moment: an owner must be able to make things where its function is.
    grant create on schema evenbeat_call to evenbeat_sql;
    begin
        alter function evenbeat_call.call_function(text, jsonb) owner to evenbeat_sql;
    exception when insufficient_privilege then
        -- Whoever has made a role may grant it, but may not become it without that.
        execute format('grant evenbeat_sql to %I', current_user);
        alter function evenbeat_call.call_function(text, jsonb) owner to evenbeat_sql;
    end;
    alter function evenbeat_call.is_admin() owner to evenbeat_sql;
    revoke create on schema evenbeat_call from evenbeat_sql;
exception when insufficient_privilege then
    raise warning 'the role evenbeat_sql cannot be given what is in evenbeat_call: see docs/sql.md';
end
$$;

-- What a session knows by name besides tables, and how to forget it. What a function leaves of it
-- would be run by the caller's next words, with the caller's rights.
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

-- Calls the function of a job that is run by hand, and leaves the session as it was.
create or replace function evenbeat.call_by_hand(
    payload jsonb, out outcome jsonb, out error text, out duration_ms integer
)
language plpgsql
as $$
declare
    known_before constant text[] := array(select known from evenbeat.known_to_session());
    -- Not the clock that jobs go by: nobody sets this one.
    began constant timestamptz := clock_timestamp();
begin
    begin
        select called.outcome, called.error into outcome, error
        from evenbeat_call.call_function(payload ->> 'function', payload -> 'arguments') as called;
        duration_ms := round(1000 * extract(epoch from clock_timestamp() - began));
        perform evenbeat.forget_all_but(known_before);
    -- Whatever ends it here, all else is undone with it, but not what was prepared.
    exception when others or assert_failure or query_canceled then
        perform evenbeat.forget_all_but(known_before);
        raise;
    end;
end
$$;
