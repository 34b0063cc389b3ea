-- name: insert
-- A job and its pulse are born together, or neither is: nothing is written for a kind that
-- neither a node nor this process has registered. A payload of JSON's null arrives as SQL's.
with known as (
    select kind.id, kind.name
    from evenbeat.kind
    where kind.name = :kind
),
born as (
    insert into evenbeat.job (
        uid, name, kind, payload, timetable, policy, labels, created_at, updated_at
    )
    select
        :uid, :name, known.name, coalesce(:payload::jsonb, 'null'), :timetable::jsonb,
        :policy::jsonb, :labels::jsonb, :now, :now
    from known
    returning job.id
)
insert into evenbeat.pulse (id, kind_id, priority, state, state_at, next_beat_at)
select born.id, known.id, :priority, :state::"char", :now, :next_beat_at
from born
cross join known
returning pulse.id;

-- name: by_uid
select
    job.id, job.uid, job.name, job.kind, job.payload, job.timetable, job.policy, job.labels,
    job.version, job.created_at, job.updated_at,
    case when pulse.token is not null then 'r'::"char" else pulse.state end as state,
    pulse.priority, pulse.state_at, pulse.next_beat_at, pulse.retry_at, pulse.manual_at,
    case when pulse.token is null then pulse.due_at end as due_at,
    pulse.completed_count, pulse.failed_count, pulse.failure_streak, pulse.lost_streak,
    pulse.attempt, pulse.run_number
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.uid = :uid
  and job.deleted_at is null;

-- name: definitions
-- What people wrote of these jobs, for the nodes that run them.
select
    job.id, job.uid, job.version, job.name, job.kind, job.payload, job.timetable, job.policy,
    job.labels, pulse.priority
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.id = any (:ids::bigint[]);
