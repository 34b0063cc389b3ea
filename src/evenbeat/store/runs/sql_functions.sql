-- name: make_settle_run
-- Make evenbeat.settle_run from the statement that completes runs.
select evenbeat.make_settle_run(:signature, :completion);

-- name: call
-- The result comes as bytes: they do not depend on the client encoding that the function may have set,
-- and Python sees text that is not JSON. A result that is far too large is not sent.
with answer as materialized (
    select convert_to(evenbeat.call_function(:function, :arguments::jsonb)::text, 'UTF8') as result
)
select
    octet_length(answer.result) as size,
    case when octet_length(answer.result) <= :most_bytes::integer then answer.result end as result
from answer;

-- name: fire_deferred_triggers
-- Run deferred triggers now, while their errors still belong to the function.
set constraints all immediate;

-- name: forget_settings
-- Reset the settings of the session, before the end of the run is written: with the function's own
-- (synchronous_commit = off) a crash could lose it.
reset all;

-- name: forget_role
reset role;
