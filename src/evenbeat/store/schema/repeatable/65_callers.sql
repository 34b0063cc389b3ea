-- version: 1
-- Callers.

-- Raises where the session has what a function would take for its own: unless it says otherwise,
-- tables and types of the session come first. Or where it has what a function could replace unseen,
-- since PostgreSQL says of it when its statement began, and the function is part of the same one.
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
          -- Those of loops, which nobody can close meanwhile.
          and name not like '<unnamed portal %>'
    ) then
        raise exception 'the same statement has prepared another, or has opened a cursor'
            using errcode = 'object_not_in_prerequisite_state',
                hint = 'Trigger the job by a statement that is sent on its own.';
    end if;
end
$$;

-- Raises where the caller is no administrator of jobs. Who may change them can have anything run as
-- the role of functions; who may not must not get that by what they have left for the end of their
-- transaction, which is done as that role too.
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
                hint = 'Whoever may update metadata.scheduled_jobs is one, and whoever is_admin() '
                    'says it of.';
    end if;
end
$$;

-- Where there is no role with few rights to call functions with, they have the engine's: raises
-- unless they have them on schedule as well, and the caller may have them anyway.
create or replace function evenbeat.check_member(caller name) returns void
language plpgsql
as $$
declare
    -- As whom functions run on schedule, if that is somebody who may do less.
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
                hint = 'Have what is in evenbeat_call given to that role, as docs/sql.md tells, '
                    'or run the job by `evenbeat jobs run`.';
    elsif not pg_has_role(caller, current_user, 'member') then
        raise exception 'Only administrators can trigger scheduled jobs'
            using errcode = 'insufficient_privilege',
                hint = format('There is no role with few rights to call functions with, so only '
                    'members of %s are: see docs/sql.md.', current_user);
    end if;
    raise warning 'the function runs with the rights of %, as on schedule', current_user
        using hint = 'Have an administrator make the role evenbeat_sql: see docs/sql.md.';
end
$$;

-- Raises where whoever calls may run no jobs by hand, or not in this session.
create or replace function evenbeat.check_caller() returns void
language plpgsql
as $$
declare
    -- Whatever functions with rights of their own are in between.
    caller constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    -- As whom functions are called by hand.
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
                hint = 'Roll the migration of it back and apply it again; until then run the job '
                    'by `evenbeat jobs run`.';
    elsif pg_has_role(callee, current_user, 'member') then
        perform evenbeat.check_member(caller);
    else
        perform evenbeat.check_administrator(caller);
    end if;
end
$$;
