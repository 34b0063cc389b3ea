-- name: of_job
-- Counters are kept by the pulse; only what it does not count is counted here, of the runs that
-- are still kept.
select
    pulse.completed_count, pulse.failed_count, pulse.token is not null as is_running,
    pulse.started_at,
    case when pulse.token is null then pulse.due_at end as due_at,
    (
        select count(*)
        from (
            select newest.state
            from evenbeat.run as newest
            where newest.job_id = :job_id
            order by newest.number desc
            limit :most
        ) as kept
        where kept.state = 'x'
    ) as cancelled_count
from evenbeat.pulse
where pulse.id = :job_id;

-- name: newest_endings
select run.state, run.duration_ms
from evenbeat.run
where run.job_id = :job_id
  and run.state <> 'k'
order by run.number desc
limit :limit;

-- name: runs
-- What was counted into its day, and what has ended since. A run that took long may have been
-- passed over by the counting: those are remembered as late.
with counted as (
    select
        sum(run_day.completed) as completed,
        sum(run_day.failed) as failed,
        sum(run_day.lost) as lost,
        sum(run_day.cancelled) as cancelled,
        sum(run_day.skipped) as skipped,
        sum(run_day.duration_ms) as duration_ms
    from evenbeat.run_day
),
uncounted as (
    select run.state, run.error_class, run.duration_ms, run.skipped_count
    from evenbeat.run
    where run.id > coalesce((select chore.cursor from evenbeat.chore where chore.name = :counting), 0)
    union all
    select run.state, run.error_class, run.duration_ms, run.skipped_count
    from evenbeat.late_run
    join evenbeat.run on run.id = late_run.id
),
fresh as (
    select
        count(*) filter (where uncounted.state = 'c') as completed,
        count(*) filter (where uncounted.state = 'f') as failed,
        count(*) filter (where uncounted.error_class = 'lost') as lost,
        count(*) filter (where uncounted.state = 'x') as cancelled,
        sum(uncounted.skipped_count) filter (where uncounted.state = 'k') as skipped,
        sum(uncounted.duration_ms) filter (where uncounted.state = 'c') as duration_ms
    from uncounted
)
select
    (coalesce(counted.completed, 0) + fresh.completed)::bigint as completed,
    (coalesce(counted.failed, 0) + fresh.failed)::bigint as failed,
    (coalesce(counted.lost, 0) + fresh.lost)::bigint as lost,
    (coalesce(counted.cancelled, 0) + fresh.cancelled)::bigint as cancelled,
    (coalesce(counted.skipped, 0) + coalesce(fresh.skipped, 0))::bigint as skipped,
    (coalesce(counted.duration_ms, 0) + coalesce(fresh.duration_ms, 0))::bigint as duration_ms
from counted
cross join fresh;

-- name: dead_letters
select
    count(*) as total,
    count(*) filter (where dead_letter.acknowledged_at is null) as unacknowledged
from evenbeat.dead_letter;
