-- SQL functions as jobs: who calls them, how, and how the end of their runs is written.
--
-- A function runs on a connection whose login may do nothing here but call the two functions that
-- are granted to it below: call_function before, and settle_run after. A role that is taken on by
-- SET ROLE would not do, since whatever the function says can undo it (RESET ROLE). The login is a
-- member of evenbeat_sql, the role that people grant to. Where we may make no roles, nodes say so and
-- do without (see docs/reference/runs/sql-functions.md).

-- One row: the login of this database. Roles belong to the whole server, hence one for each
-- database, with a password that all its nodes can read, and nobody else. Who makes what is below
-- locks it: an advisory lock could be held by a function.
create table evenbeat.sql_login (
    role name primary key,
    password text not null
);

-- What is wrong with a function that a job is to call, as "field: what to do about it"; null:
-- nothing. Names are looked up as they are written, never by somebody's search_path.
create function evenbeat.fault_of_function(function text, has_arguments boolean) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    engine constant oid := (select nspowner from pg_namespace where nspname = 'evenbeat');
    parts text[];
    found_count integer;
    found_one pg_proc;
    signature text;
begin
    begin
        parts := parse_ident(function);
    exception when invalid_parameter_value then
        parts := '{}';
    end;
    if cardinality(parts) is distinct from 2 then
        return 'function: must be a name with its schema, as in public.nightly_cleanup';
    end if;
    select count(*) into found_count
    from pg_proc
    where proname = parts[2]
      and pronamespace = (select oid from pg_namespace where nspname = parts[1]);
    if found_count <> 1 then
        return case found_count
            when 0 then format('function: there is no function %s here', function)
            else format('function: there are %s functions named %s; give the one that jobs call a '
                'name of its own', found_count, function)
        end;
    end if;
    select pg_proc.* into found_one
    from pg_proc
    where proname = parts[2]
      and pronamespace = (select oid from pg_namespace where nspname = parts[1]);
    signature := found_one.oid::regprocedure::text;
    return case
        when found_one.prokind <> 'f'
            then format('function: %s is not a plain function; a job can call nothing else, since '
                'what it does is one transaction with its record', signature)
        when found_one.prorettype <> 'jsonb'::regtype or found_one.proretset
            then format('function: %s returns %s; it must return jsonb', signature,
                pg_get_function_result(found_one.oid))
        when found_one.pronargs > 1 or found_one.provariadic <> 0
            or found_one.pronargs = 1 and found_one.proargtypes[0] <> 'jsonb'::regtype
            then format('function: %s must take nothing, or one jsonb', signature)
        when found_one.pronargs = 0 and has_arguments
            then format('arguments: %s takes none', signature)
        -- A superuser is a member of every role.
        when found_one.prosecdef and pg_has_role(found_one.proowner, engine, 'member')
            then format('function: %s is SECURITY DEFINER and belongs to %s, who may do anything '
                'to the engine; give it to a role of your application with: alter function %s '
                'owner to …', signature, pg_get_userbyid(found_one.proowner), signature)
    end;
end
$$;

-- Call a function that a job names, with whatever rights the caller has. It finds its own schema,
-- and nothing of it can be hidden by temporary objects, which come last.
-- What is set for a while in a function that has a setting for it is undone at its end.
-- Whoever hears of an error reads it whole first: a long one is cut here.
create function evenbeat.call_function(function text, arguments jsonb) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    fault constant text := evenbeat.fault_of_function(
        function, coalesce(arguments, '{}') <> '{}'
    );
    parts text[];
    takes_one boolean;
    result jsonb;
    state text;
    message text;
    detail text;
    hint text;
    context text;
begin
    if fault is not null then
        raise exception '%', fault using errcode = 'invalid_parameter_value';
    end if;
    parts := parse_ident(function);
    select pronargs = 1 into strict takes_one
    from pg_proc
    where proname = parts[2]
      and pronamespace = (select oid from pg_namespace where nspname = parts[1]);
    perform set_config('search_path', format('pg_catalog, %I, pg_temp', parts[1]), true);
    if takes_one then
        execute format('select %I.%I($1)', parts[1], parts[2])
            into result using coalesce(arguments, '{}');
    else
        execute format('select %I.%I()', parts[1], parts[2]) into result;
    end if;
    return result;
exception when others or assert_failure or query_canceled then
    get stacked diagnostics
        state = returned_sqlstate,
        message = message_text,
        detail = pg_exception_detail,
        hint = pg_exception_hint,
        context = pg_exception_context;
    if octet_length(concat(message, detail, hint, context)) > 100000 then
        raise exception using
            errcode = state,
            message = left(message, 10000),
            detail = left(concat_ws(E'\n', nullif(detail, ''), context), 10000),
            hint = left(hint, 10000);
    end if;
    raise;
end
$$;

-- Make settle_run of the statement by which every run is completed: there is one text of it. With
-- its owner's rights it writes the end of one run, for whoever knows the token; and where the
-- run is in other hands by now it raises, so that what the function did is undone with it.
-- Nodes call this when they start, and it does something only if the statement has changed. The
-- settings are those under which the engine runs the statement.
create function evenbeat.make_settle_run(signature text, completion text) returns void
language plpgsql
as $$
declare
    body constant text := format($body$
#variable_conflict use_column
begin
    for run_ids, group_ids in
        %s
    loop
        if run_ids is null then
            raise exception 'the run is in other hands by now' using errcode = 'EB001';
        end if;
        return next;
    end loop;
end
$body$, completion);
begin
    lock table evenbeat.sql_login in share row exclusive mode;
    if exists (
        select from pg_proc
        where pronamespace = 'evenbeat'::regnamespace
          and proname = 'settle_run'
          and prosrc = body
    ) then
        return;
    end if;
    execute format($make$
        create or replace function evenbeat.settle_run(%s)
        returns table (run_ids bigint[], group_ids bigint[])
        language plpgsql security definer
        set search_path = pg_catalog, pg_temp
        set timezone = 'UTC'
        set jit = off
        set plan_cache_mode = force_generic_plan
        set enable_seqscan = off
        set enable_hashjoin = off
        set enable_mergejoin = off
        as %L
    $make$, signature, body);
    execute format('revoke execute on function evenbeat.settle_run(%s) from public', signature);
end
$$;

-- Let a role run functions for the engine.
create function evenbeat.admit_sql_role(given name) returns void
language plpgsql
as $$
declare
    settle constant regprocedure[] := array(
        select oid from pg_proc
        where pronamespace = 'evenbeat'::regnamespace
          and proname = 'settle_run'
    );
    each_one regprocedure;
begin
    lock table evenbeat.sql_login in share row exclusive mode;
    if not has_schema_privilege(given, 'evenbeat', 'usage') then
        execute format('grant usage on schema evenbeat to %I', given);
    end if;
    foreach each_one in array settle || '{
        "evenbeat.fault_of_function(text, boolean)", "evenbeat.call_function(text, jsonb)"
    }'::regprocedure[] loop
        if not has_function_privilege(given, each_one, 'execute') then
            execute format('grant execute on function %s to %I', each_one, given);
        end if;
    end loop;
end
$$;

-- The login of this database, made if it is not there, and put right if a function that ran as it
-- has changed its password or its settings, as every role may change its own.
create function evenbeat.make_sql_login(out role name, out password text)
language plpgsql
as $$
#variable_conflict use_column
declare
    -- By number: names may be too long, and change.
    login constant name := 'evenbeat_sql_' || (
        select oid from pg_database where datname = current_database()
    );
begin
    lock table evenbeat.sql_login in share row exclusive mode;
    insert into evenbeat.sql_login (role, password)
    values (login, replace(concat(gen_random_uuid(), gen_random_uuid()), '-', ''))
    on conflict do nothing;
    select known.role, known.password into strict make_sql_login.role, make_sql_login.password
    from evenbeat.sql_login as known
    where known.role = login;
    if not exists (select from pg_roles where rolname = login) then
        execute format('create role %I in role evenbeat_sql', login);
    end if;
    execute format('alter role %I with login password %L', login, make_sql_login.password);
    execute format('alter role %I reset all', login);
    execute format('alter role %I in database %I reset all', login, current_database());
    -- Who ends a session of it must be a member of it.
    if not pg_has_role(current_user, login, 'usage') then
        execute format('grant %I to current_user', login);
    end if;
end
$$;

revoke execute on function
    evenbeat.fault_of_function(text, boolean),
    evenbeat.call_function(text, jsonb),
    evenbeat.make_settle_run(text, text),
    evenbeat.admit_sql_role(name),
    evenbeat.make_sql_login()
from public;

-- Functions that are called by hand, in somebody's own session, are called as this role.
do $$
begin
    if exists (select from pg_roles where rolname = 'evenbeat_sql') then
        grant usage on schema evenbeat to evenbeat_sql;
        grant execute on function
            evenbeat.fault_of_function(text, boolean), evenbeat.call_function(text, jsonb)
        to evenbeat_sql;
    end if;
end
$$;
