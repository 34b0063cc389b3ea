-- version: 1
-- What a row says.

-- What the functions of this face go by; tests put a clock here that can be set. Not the time of the
-- statement: a function of this face may wait for a lock first.
create or replace function evenbeat.clock() returns timestamptz
language sql volatile
as 'select clock_timestamp()';

create or replace view evenbeat.run_all as
select
    id, job_id, number, state, cause, beat_at, attempt, node_id, started_at, finished_at,
    duration_ms, error_class, error, stack_trace, result, items_crawled, items_indexed,
    skipped_count, skipped_until, reason
from evenbeat.run
union all
select
    run_id, id, run_number, 'r'::"char", cause,
    case when cause <> 'm' then beat_at end,
    case when cause = 'm' then manual_attempt else attempt end,
    node_id, started_at, null, null, null, null, null, null, null, null, null, null, null
from evenbeat.pulse
where token is not null;
