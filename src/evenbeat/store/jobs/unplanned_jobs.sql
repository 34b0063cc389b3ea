-- Jobs that came, or were changed, by SQL, and wait for a node to work out when they beat.

-- name: is_any
select exists (select from evenbeat.unplanned);

-- name: lock_unplanned_jobs
-- The first of them. Whoever holds one is about to plan it, or is writing it: left alone.
select
    unplanned.job_id, job.uid, unplanned.since, unplanned.owed_at, unplanned.passed_from,
    unplanned.old_timetable::text as old_timetable, unplanned.passed_in
from evenbeat.unplanned
join evenbeat.job on job.id = unplanned.job_id
join evenbeat.pulse on pulse.id = unplanned.job_id
-- If a beat is in hand, its run ends first: that may tell the beats that are passed over.
where unplanned.passed_from is null
   or pulse.token is null
   or pulse.cause = 'm'
order by unplanned.job_id
limit :limit
for no key update of job, pulse skip locked;

-- name: plan
-- Give these jobs, which are locked, their beat, and back the one they are owed. One that got a
-- beat meanwhile keeps it. Stopped meanwhile, it stays so; and one whose run ended in between, and
-- found no beat, waits again.
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
        -- A run in hand must not write the beat that follows from what it knows.
        plan_version = p.plan_version + (p.token is not null)::integer
    from unnest(:job_ids::bigint[], :next_beats::timestamptz[], :owed::timestamptz[])
        as o (job_id, next_beat_at, owed_at)
    where p.id = o.job_id
      and p.state <> 'x'
)
delete from evenbeat.unplanned
where unplanned.job_id = any (:job_ids::bigint[]);
