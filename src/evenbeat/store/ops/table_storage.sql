-- name: options
-- The storage options of the tables, as `option=value`.
select pg_class.relname as table_name, coalesce(pg_class.reloptions, '{}') as options
from pg_class
where pg_class.relnamespace = 'evenbeat'::regnamespace
  and pg_class.relkind = 'r';

-- name: server
select
    current_setting('autovacuum')::boolean as is_vacuuming,
    current_setting('track_counts')::boolean as is_counting;
