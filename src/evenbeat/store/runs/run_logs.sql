-- name: append
-- Log lines of any runs, in the order in which they were said: their ids are in it, too.
insert into evenbeat.run_log (run_id, at, level, message)
select line.run_id, :now, line.level, line.message
from unnest(:run_ids::bigint[], :levels::text[], :messages::text[])
    with ordinality as line (run_id, level, message, place)
order by line.place;
