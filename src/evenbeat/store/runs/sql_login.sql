-- name: known_login
-- The login of this database, if it has been made.
select sql_login.role, sql_login.password
from evenbeat.sql_login
join pg_roles on pg_roles.rolname = sql_login.role
join pg_database on pg_database.datname = current_database()
where sql_login.role = 'evenbeat_sql_' || pg_database.oid;

-- name: has_role_settings
-- Whether a function has stored settings for its own role, as every role may. Some of them keep the role
-- from logging in. Settings for other databases do not matter.
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

-- name: session_role
-- The role of this session, and whether it has fewer rights than the engine.
select
    session_user::text as role,
    not pg_has_role(session_user, pg_namespace.nspowner, 'member') as is_restricted
from pg_namespace
where pg_namespace.nspname = 'evenbeat';

-- name: end_session
-- A function can catch its cancellation, but not the end of its session.
select pg_terminate_backend(pg_stat_activity.pid)
from pg_stat_activity
where pg_stat_activity.pid = :pid
  and pg_stat_activity.usename = :role;
