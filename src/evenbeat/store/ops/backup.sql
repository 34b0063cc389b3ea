-- name: tables
-- Every table of the schema except the records of migrations and the password of the SQL login. For
-- each, the columns that are not generated, and the tables that must be filled before it.
select
    pg_class.relname as name,
    array(
        select pg_attribute.attname
        from pg_attribute
        where pg_attribute.attrelid = pg_class.oid
          and pg_attribute.attnum > 0
          and not pg_attribute.attisdropped
          and pg_attribute.attgenerated = ''
        order by pg_attribute.attnum
    )::text[] as columns,
    array(
        select referred.relname
        from pg_constraint
        join pg_class as referred on referred.oid = pg_constraint.confrelid
        where pg_constraint.conrelid = pg_class.oid
          and pg_constraint.contype = 'f'
          and pg_constraint.confrelid <> pg_constraint.conrelid
    )::text[] as needs
from pg_class
where pg_class.relnamespace = to_regnamespace('evenbeat')
  and pg_class.relkind = 'r'
  and pg_class.relname not in ('migration', 'repeatable', 'sql_login')
order by pg_class.relname;

-- name: sequences
-- The last value of each sequence; unused sequences are left out. Read after the tables: sequences are
-- not part of a snapshot, and a sequence that is ahead of its table only leaves a gap.
select sequence.sequencename as name, sequence.last_value as value
from pg_sequences as sequence
where sequence.schemaname = 'evenbeat'
  and sequence.last_value is not null
order by sequence.sequencename;

-- name: set_sequence
select setval(format('evenbeat.%I', :name::text)::regclass, :value::bigint);

-- name: is_used
-- Whether the database holds anything that a restore would lose.
select
    exists (select from evenbeat.job)
    or exists (select from evenbeat.run)
    or exists (select from evenbeat.job_group)
    or exists (select from evenbeat.template)
    or exists (select from evenbeat.access_token)
    or exists (select from evenbeat.audit);

-- name: truncate_tables
-- Remove the rows that migrations have inserted: the backup has its own.
do $$
begin
    execute (
        select 'truncate ' || string_agg(format('evenbeat.%I', pg_class.relname), ', ')
        from pg_class
        where pg_class.relnamespace = 'evenbeat'::regnamespace
          and pg_class.relkind = 'r'
          and pg_class.relname not in ('migration', 'repeatable')
    );
end
$$;

-- name: mark_nodes_dead
-- The nodes of the backup do not run on this database: their runs are lost, and the first node that
-- joins settles them.
update evenbeat.node
set dead_at = statement_timestamp()
where node.dead_at is null;
