-- name: insert
-- A job and its pulse are born together, or neither is: nothing is written for a kind that
-- neither a node nor this process has registered. A payload of JSON's null arrives as SQL's.
-- With :wakes the nodes hear of it at its commit: sooner than by a statement of its own, but
-- commits that notify go one after the other.
with known as (
    select lane.id, lane.kind
    from evenbeat.lane
    where lane.kind = :kind
      and lane.runs_on = :runs_on::text[]
),
born as (
    insert into evenbeat.job (
        uid, name, kind, payload, timetable, policy, labels, group_key, runs_on, created_at,
        updated_at
    )
    select
        :uid, :name, known.kind, coalesce(:payload::jsonb, 'null'), :timetable::jsonb,
        :policy::jsonb, :labels::jsonb, :group_key, :runs_on::text[], :now, :now
    from known
    returning job.id
)
insert into evenbeat.pulse (
    id, lane_id, group_id, group_limit, priority, state, state_at, next_beat_at
)
select
    born.id, known.id, :group_id, :group_limit, :priority, :state::"char", :now, :next_beat_at
from born
cross join known
returning pulse.id, case when :wakes::boolean then pg_notify('evenbeat_wake', '')::text end;

-- name: by_uids
select
    job.id, job.uid, job.name, job.kind, job.payload, job.timetable, job.policy, job.labels,
    job.group_key, job.runs_on, pulse.group_limit, job.version, job.created_at, job.updated_at,
    case
        when pulse.token is not null then 'r'::"char"
        when pulse.is_parked then 'b'::"char"
        else pulse.state
    end as state,
    pulse.state as resting, pulse.wanted, case when pulse.token is not null then pulse.cause end
        as cause,
    pulse.priority, pulse.state_at, pulse.next_beat_at, pulse.retry_at, pulse.manual_at,
    case when pulse.token is null then pulse.due_at end as due_at,
    pulse.completed_count, pulse.failed_count, pulse.beat_count, pulse.failure_streak,
    pulse.lost_streak, pulse.beat_at, pulse.attempt, pulse.manual_attempt, pulse.run_number
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.uid = any (:uids::uuid[])
  and (job.deleted_at is null or :with_deleted::boolean)
order by job.id;

-- name: id_of
-- Of a deleted job too: what is told of it stays.
select job.id
from evenbeat.job
where job.uid = :uid;

-- name: definitions
-- What people wrote of these jobs, for the nodes that run them.
select
    job.id, job.uid, job.version, job.name, job.kind, job.payload, job.timetable, job.policy,
    job.labels, job.group_key, job.runs_on, pulse.group_limit, pulse.priority
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.id = any (:ids::bigint[]);
