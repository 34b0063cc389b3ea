-- name: lock
-- One migrating process at a time; the rest wait and find the work done. Released with the
-- transaction, so that it also holds behind a pooler.
select pg_advisory_xact_lock(hashtextextended('evenbeat.migration', 0));

-- name: exists
-- Not by to_regclass, which may answer from before the lock was waited for: the catalogs themselves
-- are read as of the statement.
select exists (
    select 1
    from pg_catalog.pg_class
    join pg_catalog.pg_namespace on pg_namespace.oid = pg_class.relnamespace
    where pg_namespace.nspname = 'evenbeat' and pg_class.relname = 'migration'
);

-- name: create_schema
create schema if not exists evenbeat;

-- name: create_table
create table if not exists evenbeat.migration (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null
);

-- name: applied
select migration.number, migration.name, migration.checksum, migration.applied_at
from evenbeat.migration
order by migration.number;

-- name: record
insert into evenbeat.migration (number, name, checksum, applied_at)
values (:number, :name, :checksum, statement_timestamp());

-- name: forget
delete from evenbeat.migration
where migration.number = :number;

-- name: server_version
select current_setting('server_version_num')::integer;

-- name: has_zones
select to_regclass('evenbeat.zone') is not null;

-- name: load_zones
-- None is taken away: a job may be of one that this machine does not know.
insert into evenbeat.zone (name)
select given.name
from unnest(:names::text[]) as given (name)
on conflict (name) do nothing;
