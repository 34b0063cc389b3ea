-- version: 1
-- How the run of an SQL function ends in the function's own transaction, and as which login it runs.

-- Makes settle_run out of `complete`, the statement that ends every run: so there is one text of it.
-- settle_run has its owner's rights and writes the end of one run, if the caller knows the token. If
-- another node has the run by now, it raises, and what the function did is undone.
-- Every node calls this when it starts. It does nothing unless the statement has changed. The
-- settings are those under which the engine runs the statement.
create or replace function evenbeat.make_settle_run(signature text, completion text) returns void
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

-- Lets a role run functions for the engine.
create or replace function evenbeat.admit_sql_role(given name) returns void
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

-- Returns the login of this database and makes it if need be. A function that ran as this login may
-- have changed its password or its settings, as every role may for itself: they are set again.
create or replace function evenbeat.make_sql_login(out role name, out password text)
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
    -- To end a session of the login, the engine must be a member of it.
    if not pg_has_role(current_user, login, 'usage') then
        execute format('grant %I to current_user', login);
    end if;
end
$$;

revoke execute on function
    evenbeat.make_settle_run(text, text),
    evenbeat.admit_sql_role(name),
    evenbeat.make_sql_login()
from public;
