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

-- name: create_repeatable_table
create table if not exists evenbeat.repeatable (
    name text primary key,
    version integer not null,
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

-- name: applied_repeatables
select repeatable.name, repeatable.version, repeatable.checksum, repeatable.applied_at
from evenbeat.repeatable
order by repeatable.name;

-- name: record_repeatable
insert into evenbeat.repeatable (name, version, checksum, applied_at)
values (:name, :version, :checksum, statement_timestamp())
on conflict (name) do update
set version = excluded.version,
    checksum = excluded.checksum,
    applied_at = excluded.applied_at;

-- name: forget_repeatables
delete from evenbeat.repeatable;

-- fragment: owned
-- The views and functions of these names, with their owners and ACLs. An object without an ACL has
-- the privileges that PostgreSQL gives by default.
select
    format('%I.%I', space.nspname, relation.relname) as name,
    format('table %I.%I', space.nspname, relation.relname) as identity,
    '' as column_name, relation.relowner as owner,
    coalesce(relation.relacl, acldefault('r', relation.relowner)) as acl
from pg_catalog.pg_class as relation
join pg_catalog.pg_namespace as space on space.oid = relation.relnamespace
where format('%I.%I', space.nspname, relation.relname) = any (:objects::text[])
union all
select
    format('%I.%I', space.nspname, relation.relname),
    format('table %I.%I', space.nspname, relation.relname),
    format(' (%I)', attribute.attname), relation.relowner, attribute.attacl
from pg_catalog.pg_attribute as attribute
join pg_catalog.pg_class as relation on relation.oid = attribute.attrelid
join pg_catalog.pg_namespace as space on space.oid = relation.relnamespace
where format('%I.%I', space.nspname, relation.relname) = any (:objects::text[])
  and attribute.attnum > 0
  and not attribute.attisdropped
union all
select
    format('%I.%I', space.nspname, routine.proname),
    format(
        'function %I.%I(%s)', space.nspname, routine.proname,
        pg_get_function_identity_arguments(routine.oid)
    ),
    '', routine.proowner, coalesce(routine.proacl, acldefault('f', routine.proowner))
from pg_catalog.pg_proc as routine
join pg_catalog.pg_namespace as space on space.oid = routine.pronamespace
where format('%I.%I', space.nspname, routine.proname) = any (:objects::text[])

-- fragment: granted
-- The same, each with the list of its privileges. What an owner may do follows from owning.
select
    owned.name, owned.identity, owned.column_name,
    coalesce(
        jsonb_agg(
            jsonb_build_object(
                'privilege', each_one.privilege_type,
                'grantee', case each_one.grantee
                    when 0 then 'public'
                    else quote_ident(pg_get_userbyid(each_one.grantee))
                end,
                'option', case when each_one.is_grantable then ' with grant option' else '' end
            )
        ) filter (where each_one.grantee <> owned.owner),
        '[]'
    ) as privileges
from (
    :owned
) as owned
left join lateral aclexplode(owned.acl) as each_one on true
group by owned.name, owned.identity, owned.column_name

-- name: privileges
-- Who may do what with these objects, for put_back.
select coalesce(jsonb_agg(to_jsonb(granted)), '[]')
from (
    :granted
) as granted;

-- name: put_back
-- The GRANTs and REVOKEs after which every object that was there before has exactly the privileges
-- that it had, whatever the files said. An object that came with other arguments is found by its
-- name. A new object has what its file gave it.
with was as (
    select was.name, was.identity, was.column_name, was.privileges
    from jsonb_to_recordset(:before::jsonb)
        as was (name text, identity text, column_name text, privileges jsonb)
),
has as (
    :granted
),
both_of as (
    select
        has.identity, has.column_name, has.privileges as has_privileges,
        was.privileges as was_privileges
    from has
    join was on was.name = has.name
        and was.column_name = has.column_name
        and (
            was.identity = has.identity
            or not exists (select from was as same where same.identity = has.identity)
            and not exists (select from has as same where same.identity = was.identity)
        )
)
select
    format(
        'revoke %s%s on %s from %s', each_one ->> 'privilege', both_of.column_name,
        both_of.identity, each_one ->> 'grantee'
    ) as statement,
    1 as turn
from both_of
cross join lateral jsonb_array_elements(both_of.has_privileges) as each_one
where not both_of.was_privileges @> jsonb_build_array(each_one)
union all
select
    format(
        'grant %s%s on %s to %s%s', each_one ->> 'privilege', both_of.column_name,
        both_of.identity, each_one ->> 'grantee', each_one ->> 'option'
    ),
    2
from both_of
cross join lateral jsonb_array_elements(both_of.was_privileges) as each_one
where not both_of.has_privileges @> jsonb_build_array(each_one)
order by turn, statement;

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
