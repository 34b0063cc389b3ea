-- name: append
-- Log lines of a run, in their order.
insert into evenbeat.run_log (run_id, at, level, message)
select :run_id, :now, line.level, line.message
from unnest(:levels::text[], :messages::text[]) with ordinality as line (level, message, place)
order by line.place;
