-- Lists of jobs. `states` are our states. `statuses` are those of the interval scheduler's clients:
-- to them a job that is blocked by its group is not a state of its own, and a scheduled job that
-- waits for a run by hand is pending.

-- fragment: status
-- A running job that a person has cancelled is shown as cancelled.
case
    when pulse.token is not null and pulse.wanted = 'x' then 'x'::"char"
    when pulse.token is not null then 'r'::"char"
    when pulse.state = 's' and pulse.manual_at is not null then 'p'::"char"
    else pulse.state
end

-- fragment: shown
    job.id, job.uid, job.name, job.kind, job.group_key, job.runs_on,
    jsonb_build_object(
        'payload', job.payload, 'timetable', job.timetable, 'policy', job.policy,
        'labels', job.labels, 'wording', job.wording
    )::text as written,
    pulse.group_limit, job.version, job.created_at, job.updated_at,
    :current_state as state,
    pulse.state as resting, pulse.wanted,
    case when pulse.token is not null then pulse.cause end as cause,
    pulse.priority, pulse.state_at, pulse.next_beat_at, pulse.retry_at, pulse.manual_at,
    case when pulse.token is null then pulse.due_at end as due_at,
    pulse.completed_count, pulse.failed_count, pulse.beat_count, pulse.failure_streak,
    pulse.lost_streak, pulse.beat_at, pulse.attempt, pulse.manual_attempt, pulse.run_number,
    pulse.started_at as last_started_at, run.finished_at as last_finished_at,
    run.error as last_error, run.error_class as last_error_class, node.name as node

-- fragment: jobs
evenbeat.job
join evenbeat.pulse on pulse.id = job.id
left join evenbeat.run on run.id = pulse.run_id and pulse.token is null
left join evenbeat.node on node.id = pulse.node_id and pulse.token is not null

-- fragment: matches
:is_not_deleted
and (:before::bigint is null or job.id < :before)
and (:statuses::"char"[] is null or :status = any (:statuses))
and (:states::"char"[] is null or :current_state = any (:states))
and (:kinds::text[] is null or job.kind = any (:kinds))
and (:groups::text[] is null or job.group_key = any (:groups))
and (:source_id::text is null or job.payload ->> 'source_id' = :source_id)
and (:labels::jsonb is null or job.labels @> :labels)
and (:uids::uuid[] is null or job.uid = any (:uids))
and (
    :search::text is null
    or job.name ilike :search
    or job.kind ilike :search
    or job.payload ->> 'source_name' ilike :search
    or job.payload ->> 'url' ilike :search
)

-- fragment: order_created_at_asc
job.id

-- fragment: order_created_at_desc
job.id desc

-- fragment: order_updated_at_asc
job.updated_at, job.id

-- fragment: order_updated_at_desc
job.updated_at desc, job.id desc

-- fragment: order_status_asc
-- By the words, not by their codes.
strpos('xcdfzprs', (:status)::text), job.id

-- fragment: order_status_desc
strpos('xcdfzprs', (:status)::text) desc, job.id desc

-- fragment: order_source_name_asc
job.payload ->> 'source_name' nulls last, job.id

-- fragment: order_source_name_desc
job.payload ->> 'source_name' desc nulls last, job.id desc

-- fragment: order_next_run_at_asc
pulse.due_at nulls last, job.id

-- fragment: order_next_run_at_desc
pulse.due_at desc nulls first, job.id desc

-- fragment: order_last_run_at_asc
pulse.started_at nulls last, job.id

-- fragment: order_last_run_at_desc
pulse.started_at desc nulls last, job.id desc

-- fragment: order_type_asc
job.kind, job.id

-- fragment: order_type_desc
job.kind desc, job.id desc

-- fragment: order_name_asc
job.name nulls last, job.id

-- fragment: order_name_desc
job.name desc nulls last, job.id desc

-- fragment: order_priority_asc
pulse.priority, job.id

-- fragment: order_priority_desc
pulse.priority desc, job.id desc

-- name: by_uids
-- JSON columns are returned as one text, because the connection may be a caller's, whose codecs we do
-- not know.
select
    :shown
from :jobs
where job.uid = any (:uids::uuid[])
  and (:is_not_deleted or :with_deleted::boolean)
order by job.id;

-- name: matching
-- The jobs that match, in the order of their ids.
select job.uid
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where :matches
order by job.id
limit :limit;

-- name: page
-- One page of the jobs that match. The ids are chosen first: a page far down the list skips a hundred
-- thousand jobs, and their other columns need not be read.
with chosen as materialized (
    select job.id
    from evenbeat.job
    join evenbeat.pulse on pulse.id = job.id
    where :matches
    order by :order
    limit :limit
    offset :offset
)
select
    :shown
from :jobs
join chosen on chosen.id = job.id
order by :order;

-- name: count
select count(*)
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where :matches;

-- name: count_all
-- All jobs that are not deleted, without reading their pulses.
select count(*)
from evenbeat.job
where :is_not_deleted;

-- name: status_counts
select
    :status as status,
    count(*) as count
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where :matches
group by 1;
