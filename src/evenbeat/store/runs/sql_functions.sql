-- name: make_settle_run
-- Have evenbeat.settle_run made of the statement that completes runs.
select evenbeat.make_settle_run(:signature, :completion);

-- name: call
-- As bytes: whatever encoding the function has left, they are the same, and what is no JSON to
-- Python is seen when it is read. What is far too large is not sent.
with answer as materialized (
    select convert_to(evenbeat.call_function(:function, :arguments::jsonb)::text, 'UTF8') as told
)
select
    octet_length(answer.told) as size,
    case when octet_length(answer.told) <= :most_bytes::integer then answer.told end as told
from answer;

-- name: fire_deferred_triggers
-- What waits for the commit happens now, while its errors are still the function's.
set constraints all immediate;

-- name: forget_settings
-- Back to what this session began with: the end of the run is not written by the function's
-- settings, of which one (synchronous_commit) would let a crash lose it.
reset all;

-- name: forget_role
reset role;
