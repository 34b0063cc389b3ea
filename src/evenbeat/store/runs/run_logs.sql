-- name: append
-- Store log lines of any runs. Their ids are in the order in which they were logged.
insert into evenbeat.run_log (run_id, at, level, message)
select line.run_id, :now, line.level, line.message
from unnest(:run_ids::bigint[], :levels::text[], :messages::text[])
    with ordinality as line (run_id, level, message, place)
order by line.place;
