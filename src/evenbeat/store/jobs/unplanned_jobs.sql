-- Jobs that were added or changed by SQL, and wait for a node to plan their next beat.

-- name: is_any
select exists (select from evenbeat.unplanned);

-- name: lock_unplanned_jobs
-- Lock the first of them. A job that another transaction has locked is being planned or written
-- there, and is skipped.
select
    unplanned.job_id, job.uid, unplanned.since, unplanned.owed_at, unplanned.passed_from,
    unplanned.old_timetable::text as old_timetable, unplanned.passed_in
from evenbeat.unplanned
join evenbeat.job on job.id = unplanned.job_id
join evenbeat.pulse on pulse.id = unplanned.job_id
-- If a beat is in hand, its run ends first: that may record the beats that are passed over.
where unplanned.passed_from is null
   or pulse.token is null
   or pulse.cause = 'm'
order by unplanned.job_id
limit :limit
for no key update of job, pulse skip locked;

-- name: plan
-- Give these locked jobs their next beat, and the beat that they are owed. A job that has a beat by
-- now keeps it. A job that was stopped meanwhile stays stopped. A job whose run has ended meanwhile
-- and found no beat is scheduled again.
with planned as (
    update evenbeat.pulse as p
    set next_beat_at = coalesce(p.next_beat_at, o.next_beat_at),
        retry_at = coalesce(p.retry_at, o.owed_at),
        beat_at = case when p.retry_at is null then coalesce(o.owed_at, p.beat_at) else p.beat_at end,
        attempt = case when p.retry_at is null and o.owed_at is not null then 0 else p.attempt end,
        state = case
            when p.state = 'c' and coalesce(o.next_beat_at, o.owed_at) is not null then 's'
            when p.state = 's'
                and coalesce(p.next_beat_at, o.next_beat_at, p.retry_at, o.owed_at, p.manual_at)
                    is null then case when p.failure_streak > 0 then 'f'::"char" else 'c' end
            else p.state
        end,
        -- A running job must not write the beat that follows from its old plan.
        plan_version = p.plan_version + (p.token is not null)::integer
    from unnest(:job_ids::bigint[], :next_beats::timestamptz[], :owed::timestamptz[])
        as o (job_id, next_beat_at, owed_at)
    where p.id = o.job_id
      and p.state <> 'x'
)
delete from evenbeat.unplanned
where unplanned.job_id = any (:job_ids::bigint[]);
