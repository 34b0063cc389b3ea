-- name: make_settle_run
-- Have evenbeat.settle_run made of the statement that completes runs.
select evenbeat.make_settle_run(:signature, :completion);

-- name: faults
-- What is wrong with these functions, in the order in which they were given; null: nothing.
select evenbeat.fault_of_function(given.function, given.has_arguments) as fault
from unnest(:functions::text[], :have_arguments::boolean[]) with ordinality
    as given (function, has_arguments, place)
order by given.place;

-- name: call
-- As bytes: whatever encoding the function has left, they are the same, and what is no JSON to
-- Python is seen when it is read. What is far too large is not sent.
with answer as materialized (
    select convert_to(evenbeat.call_function(:function, :arguments::jsonb)::text, 'UTF8') as told
)
select
    octet_length(answer.told) as size,
    case when octet_length(answer.told) <= :most_bytes::integer then answer.told end as told
from answer;

-- name: fire_deferred_triggers
-- What waits for the commit happens now, while its errors are still the function's.
set constraints all immediate;

-- name: forget_settings
-- Back to what this session began with: the end of the run is not written by the function's
-- settings, of which one (synchronous_commit) would let a crash lose it.
reset all;

-- name: forget_role
reset role;

-- name: known_login
-- The login of this database, if it has been made.
select sql_login.role, sql_login.password
from evenbeat.sql_login
join pg_roles on pg_roles.rolname = sql_login.role
join pg_database on pg_database.datname = current_database()
where sql_login.role = 'evenbeat_sql_' || pg_database.oid;

-- name: is_spoilt
-- Whether a function has left settings for the role that it ran as, as every role may for its own:
-- some keep it from logging in at all. Those for other databases are met by nobody.
select exists (
    select
    from pg_db_role_setting
    join pg_roles on pg_roles.oid = pg_db_role_setting.setrole
    left join pg_database on pg_database.oid = pg_db_role_setting.setdatabase
    where pg_roles.rolname = :role
      and coalesce(pg_database.datname, current_database()) = current_database()
);

-- name: make_login
select made.role, made.password
from evenbeat.make_sql_login() as made;

-- name: admit
select evenbeat.admit_sql_role(:role::name);

-- name: who
-- Whom a session belongs to, and whether that one is any less than the engine.
select
    session_user::text as role,
    not pg_has_role(session_user, pg_namespace.nspowner, 'member') as is_restricted
from pg_namespace
where pg_namespace.nspname = 'evenbeat';

-- name: end_session
-- A function can catch that it is cancelled, but not that its session is ended.
select pg_terminate_backend(pg_stat_activity.pid)
from pg_stat_activity
where pg_stat_activity.pid = :pid
  and pg_stat_activity.usename = :role;
