-- version: 1
-- Who may trigger a job by hand, and in what state the session must be.

-- Raises if the session has temporary tables or types: by default they come first in the path, and
-- the function would take them for its own. Raises as well if the same statement prepared another one
-- or opened a cursor: PostgreSQL tells only when its statement began, and the function is part of the
-- same statement, so that it could replace either unseen.
create or replace function evenbeat.check_session() returns void
language plpgsql
as $$
begin
    if exists (select from pg_class where pg_class.relnamespace = pg_my_temp_schema())
        or exists (select from pg_type where pg_type.typnamespace = pg_my_temp_schema()) then
        raise exception 'this session has temporary tables, which the function would meet'
            using errcode = 'object_not_in_prerequisite_state',
                hint = 'Drop them (discard temp), or use another session.';
    end if;
    if exists (
        select from pg_prepared_statements where prepare_time = statement_timestamp()
    ) or exists (
        select
        from pg_cursors
        where creation_time = statement_timestamp()
          -- These belong to loops, and cannot be closed while the loop runs.
          and name not like '<unnamed portal %>'
    ) then
        raise exception 'the same statement has prepared another, or has opened a cursor'
            using errcode = 'object_not_in_prerequisite_state',
                hint = 'Trigger the job by a statement that is sent on its own.';
    end if;
end
$$;

-- Raises if the client is no administrator of jobs. A client that may UPDATE jobs can have any
-- function run as evenbeat_sql, and is not asked. Another client must not have written before: up to
-- PostgreSQL 17 the triggers that it deferred would be fired as evenbeat_sql.
create or replace function evenbeat.check_administrator(caller name) returns void
language plpgsql
as $$
declare
    known_before constant text[] := array(select known from evenbeat.known_to_session());
    is_admin boolean;
begin
    if has_table_privilege(caller, 'metadata.scheduled_jobs', 'update') then
        return;
    elsif pg_current_xact_id_if_assigned() is not null then
        raise exception 'a job is triggered before anything else is written'
            using errcode = 'active_sql_transaction',
                hint = 'Trigger it in a transaction of its own.';
    end if;
    begin
        is_admin := evenbeat_call.is_admin();
    exception when others or assert_failure or query_canceled then
        perform evenbeat.forget_all_but(known_before);
        raise;
    end;
    perform evenbeat.forget_all_but(known_before);
    if not is_admin then
        raise exception 'Only administrators can trigger scheduled jobs'
            using errcode = 'insufficient_privilege',
                hint = 'A role that may update metadata.scheduled_jobs is one, and so is one for '
                    'which is_admin() is true.';
    end if;
end
$$;

-- Where evenbeat_sql does not own call_function, functions have the engine's rights. Raises unless
-- they have them on schedule as well and the client is a member of the engine's role.
create or replace function evenbeat.check_member(caller name) returns void
language plpgsql
as $$
declare
    -- The login with which functions run on schedule, if it may do less than the engine.
    login constant name := (
        select min(pg_roles.rolname)
        from pg_proc
        cross join lateral aclexplode(pg_proc.proacl) as granted
        join pg_roles on pg_roles.oid = granted.grantee
        where pg_proc.pronamespace = 'evenbeat'::regnamespace
          and pg_proc.proname = 'settle_run'
          and not pg_has_role(granted.grantee, current_user, 'member')
    );
begin
    if login is not null then
        raise exception 'by hand the function would have the rights of %, on schedule it has '
            'those of %', current_user, login
            using errcode = 'insufficient_privilege',
                hint = 'Have what is in evenbeat_call given to that role, as docs/how-to/schedule-sql-functions.md tells, '
                    'or run the job by `evenbeat jobs run`.';
    elsif not pg_has_role(caller, current_user, 'member') then
        raise exception 'Only administrators can trigger scheduled jobs'
            using errcode = 'insufficient_privilege',
                hint = format('There is no role with few rights to call functions with, so only '
                    'members of %s are: see docs/how-to/schedule-sql-functions.md.', current_user);
    end if;
    raise warning 'the function runs with the rights of %, as on schedule', current_user
        using hint = 'Have an administrator make the role evenbeat_sql: see docs/how-to/schedule-sql-functions.md.';
end
$$;

-- Raises if the client may not run jobs by hand, or not in this session.
create or replace function evenbeat.check_caller() returns void
language plpgsql
as $$
declare
    -- The client, even if SECURITY DEFINER functions stand between it and this one.
    caller constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    -- The role with which functions are called by hand.
    callee constant oid := (
        select pg_proc.proowner
        from pg_proc
        where pg_proc.oid = to_regprocedure('evenbeat_call.call_function(text, jsonb)')
          and pg_proc.prosecdef
    );
begin
    perform evenbeat.check_session();
    if callee is null then
        raise exception 'evenbeat_call.call_function is not as it was made'
            using errcode = 'insufficient_privilege',
                hint = 'Have it made again: delete from evenbeat.repeatable where name = '
                    '''call_by_hand'', then `evenbeat db migrate`. Until then run the job by '
                    '`evenbeat jobs run`.';
    elsif pg_has_role(callee, current_user, 'member') then
        perform evenbeat.check_member(caller);
    else
        perform evenbeat.check_administrator(caller);
    end if;
end
$$;
