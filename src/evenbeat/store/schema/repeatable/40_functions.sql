-- version: 1
-- The functions that jobs call: what is wrong with one, and calling one.
--
-- A job's function runs on a connection whose login may do nothing here but call call_function
-- before, and settle_run after. A role taken on by SET ROLE would not do: the function could undo it
-- by RESET ROLE. The login is a member of evenbeat_sql, the role that people grant to. Where
-- Evenbeat may make no roles, nodes warn and do without (docs/sql-functions.md).

-- Returns what is wrong with a function that a job is to call, as "field: what to do about it"; null:
-- nothing. A name must have its schema: the search_path of the caller plays no part.
create or replace function evenbeat.fault_of_function(function text, has_arguments boolean) returns text
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

-- Calls a function that a job names, with the rights of the caller. The search_path has the schema
-- of the function first and temporary objects last, so that they cannot hide anything of it. It ends
-- with this call, because call_function has a setting for it.
-- A long error is cut here: the client would read it whole before it could cut it.
create or replace function evenbeat.call_function(function text, arguments jsonb) returns jsonb
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

-- Returns the name of a function with its schema. A name without a schema is looked for in metadata
-- and in public, in this order. Null: it is no name, or there is no such function.
create or replace function evenbeat.qualified_function(name text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    words text[];
begin
    words := parse_ident(name);
    return case cardinality(words)
        when 1 then (
            select format('%I.%I', pg_namespace.nspname, pg_proc.proname)
            from pg_proc
            join pg_namespace on pg_namespace.oid = pg_proc.pronamespace
            where pg_proc.proname = words[1]
              and pg_namespace.nspname in ('metadata', 'public')
            order by pg_namespace.nspname
            limit 1
        )
        when 2 then format('%I.%I', words[1], words[2])
    end;
exception when invalid_parameter_value then
    return null;
end
$$;

-- Returns why a result cannot be kept, and what to do; null: it can. On schedule Python checks the
-- same, and does not count the spaces.
create or replace function evenbeat.fault_of_result(given jsonb) returns text
language sql immutable
as $$
    select case
        when octet_length(given::text) > 1000000
            then 'result: has more than 1000000 bytes; store it elsewhere and return where it is'
        when jsonb_path_exists(given, '$.**{64}')
            then 'result: is nested deeper than 64 levels'
        when jsonb_path_exists(
            given, '$.** ? (@.type() == "number" && (@ > 1.79e308 || @ < -1.79e308))'
        ) then 'result: must have finite numbers alone'
    end;
$$;

revoke execute on function
    evenbeat.fault_of_function(text, boolean),
    evenbeat.call_function(text, jsonb)
from public;
do $$
begin
    if exists (select from pg_roles where rolname = 'evenbeat_sql') then
        grant execute on function
            evenbeat.fault_of_function(text, boolean), evenbeat.call_function(text, jsonb)
        to evenbeat_sql;
    end if;
end
$$;
