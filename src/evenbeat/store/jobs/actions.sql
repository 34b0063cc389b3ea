-- Actions of people on jobs, one or ten thousand: choose, lock, read, write. Between the lock and the
-- write no other transaction changes these jobs: claims skip locked rows, and ends of runs wait.

-- name: lock
-- Lock these jobs in id order, as every transaction does. Their rows of `sql_job` are locked first:
-- a transaction that writes by SQL locks its row there before it locks the job.
with shown as materialized (
    select sql_job.id
    from evenbeat.sql_job
    where sql_job.job_id in (
        select named.id from evenbeat.job as named where named.uid = any (:uids::uuid[])
    )
    order by sql_job.id
    for no key update
)
select job.id
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.uid = any (:uids::uuid[])
  and (select count(*) from shown) >= 0
order by job.id
for no key update of job, pulse;

-- name: show_sql_jobs
-- Bring the rows of `sql_job` up to date with these jobs.
select evenbeat.show_sql_job(job.id)
from evenbeat.job
where job.id = any (:job_ids::bigint[])
  and job.kind = 'sql_function'
order by job.id;

-- name: write_changes
-- Write what an action decided about these pulses, if their state still allows the action.
update evenbeat.pulse
set state = o.state,
    wanted = o.wanted,
    state_at = case
        when pulse.state = o.state and pulse.wanted is not distinct from o.wanted then pulse.state_at
        else :now
    end,
    next_beat_at = o.next_beat_at,
    retry_at = o.retry_at,
    manual_at = o.manual_at,
    beat_at = o.beat_at,
    attempt = o.attempt,
    manual_attempt = o.manual_attempt,
    is_parked = o.is_parked,
    plan_version = pulse.plan_version + o.is_replanned::integer
from unnest(
    :job_ids::bigint[], :to_states::"char"[], :wanted::"char"[], :next_beats::timestamptz[],
    :retries::timestamptz[], :manual::timestamptz[], :beats::timestamptz[],
    :attempts::smallint[], :manual_attempts::smallint[], :parked::boolean[],
    :replanned::boolean[]
) as o (
    job_id, state, wanted, next_beat_at, retry_at, manual_at, beat_at, attempt, manual_attempt,
    is_parked, is_replanned
)
where pulse.id = o.job_id
  and :current_state = any (:allowed::"char"[]);

-- name: delete
-- Another job may take the name at once. The history stays.
update evenbeat.job
set deleted_at = :now
where job.id = any (:job_ids::bigint[])
  and :is_not_deleted;

-- name: edit
-- Give the job another definition. The old one is kept as it is stored, even if this version of the
-- program cannot read it.
with replaced as (
    insert into evenbeat.job_version (job_id, version, definition, replaced_at, replaced_by)
    select
        job.id, job.version,
        jsonb_build_object(
            'name', job.name, 'kind', job.kind, 'payload', job.payload,
            'timetable', job.timetable, 'policy', job.policy, 'labels', job.labels,
            'group_key', job.group_key, 'group_limit', pulse.group_limit,
            'priority', pulse.priority, 'runs_on', job.runs_on, 'wording', job.wording
        ),
        :now, :actor
    from evenbeat.job
    join evenbeat.pulse on pulse.id = job.id
    where job.id = :job_id
),
edited as (
    update evenbeat.job
    set name = :name,
        kind = :kind,
        payload = coalesce(:payload::jsonb, 'null'),
        timetable = :timetable::jsonb,
        policy = :policy::jsonb,
        labels = :labels::jsonb,
        group_key = :group_key,
        runs_on = :runs_on::text[],
        wording = :wording::jsonb,
        version = job.version + 1,
        updated_at = :now
    where job.id = :job_id
      and job.version = :version
      and :is_not_deleted
    returning job.id, job.version
)
update evenbeat.pulse
set lane_id = lane.id,
    group_id = :group_id,
    group_limit = :group_limit,
    priority = :priority,
    def_version = edited.version
from edited, evenbeat.lane
where pulse.id = edited.id
  and lane.kind = :kind
  and lane.runs_on = :runs_on::text[];

-- name: write_missed_beats
-- Beats that will not be run, of a pause or of an old timetable: one row of the history a job.
-- A run by hand may be in hand. The row comes before it, and that run counts one further: the row
-- is history now, and the run is later. The end of a scheduled run records its missed beats itself.
with counted as (
    update evenbeat.pulse
    set run_number = pulse.run_number + 1
    from unnest(
        :job_ids::bigint[], :first::timestamptz[], :until::timestamptz[], :counts::integer[],
        :reasons::text[]
    ) as missed (job_id, first_at, until_at, count, reason)
    where pulse.id = missed.job_id
      and (pulse.token is null or pulse.cause = 'm')
    returning
        pulse.id, pulse.run_number - (pulse.token is not null)::integer as number,
        missed.first_at, missed.until_at, missed.count, missed.reason
)
insert into evenbeat.run (
    id, job_id, number, state, cause, beat_at, attempt, started_at, finished_at, skipped_count,
    skipped_until, reason
)
select
    nextval('evenbeat.run_id'), counted.id, counted.number, 'k', 's', counted.first_at, 0, :now,
    :now, counted.count, counted.until_at, counted.reason
from counted;

-- name: versions
-- Every definition of a job, the one in force first.
select
    job.version,
    jsonb_build_object(
        'name', job.name, 'kind', job.kind, 'payload', job.payload, 'timetable', job.timetable,
        'policy', job.policy, 'labels', job.labels, 'group_key', job.group_key,
        'group_limit', pulse.group_limit, 'priority', pulse.priority, 'runs_on', job.runs_on,
        'wording', job.wording
    ) as definition,
    null::timestamptz as replaced_at,
    null::text as replaced_by
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.id = :job_id
union all
select
    job_version.version, job_version.definition, job_version.replaced_at, job_version.replaced_by
from evenbeat.job_version
where job_version.job_id = :job_id
order by version desc;
