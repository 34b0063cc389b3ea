-- fragment: days_in_scope
-- The days of one job, kind or group, or of all.
(:job_id::bigint is null or run_day.job_id = :job_id)
and (:kind::text is null or run_day.kind = :kind)
and (:group::text is null or run_day.group_key = :group)

-- fragment: uncounted
-- Runs that ended after runs were last counted into days, and late runs: those that were still in
-- progress when the counting passed their id.
    select
        run.job_id, run.started_at, run.state, run.error_class, run.duration_ms,
        run.skipped_count, run.cause
    from evenbeat.run
    where run.id > coalesce((select chore.cursor from evenbeat.chore where chore.name = :counting), 0)
    union all
    select
        run.job_id, run.started_at, run.state, run.error_class, run.duration_ms,
        run.skipped_count, run.cause
    from evenbeat.late_run
    join evenbeat.run on run.id = late_run.id

-- fragment: uncounted_in_scope
-- The job is read only where a kind or a group is given.
(:job_id::bigint is null or uncounted.job_id = :job_id)
and (
    :kind::text is null
    and :group::text is null
    or exists (
        select from evenbeat.job
        where job.id = uncounted.job_id
          and (:kind::text is null or job.kind = :kind)
          and (:group::text is null or job.group_key = :group)
    )
)

-- name: of_job
-- The pulse has the counters. It does not count cancelled runs: those are counted here, among the runs
-- that are still kept.
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
-- The sums of the days, with the runs that ended since.
with counted as (
    select
        sum(run_day.completed) as completed,
        sum(run_day.failed) as failed,
        sum(run_day.lost) as lost,
        sum(run_day.cancelled) as cancelled,
        sum(run_day.skipped) as skipped,
        sum(run_day.duration_ms) as duration_ms
    from evenbeat.run_day
    where :days_in_scope
),
uncounted as (
    :uncounted
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
    where :uncounted_in_scope
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

-- name: days
-- The same by day of their start (UTC), for the last :days days; days without runs are left out.
with uncounted as (
    :uncounted
),
daily as (
    select
        run_day.day, run_day.completed, run_day.failed, run_day.lost, run_day.cancelled,
        run_day.skipped, run_day.retried, run_day.duration_ms
    from evenbeat.run_day
    where run_day.day > (:now at time zone 'UTC')::date - :days::integer
      and :days_in_scope
    union all
    select
        (uncounted.started_at at time zone 'UTC')::date,
        (uncounted.state = 'c')::integer, (uncounted.state = 'f')::integer,
        coalesce(uncounted.error_class = 'lost', false)::integer,
        (uncounted.state = 'x')::integer,
        coalesce(uncounted.skipped_count, 0), (uncounted.cause = 't')::integer,
        case when uncounted.state = 'c' then coalesce(uncounted.duration_ms, 0) else 0 end
    from uncounted
    where (uncounted.started_at at time zone 'UTC')::date
        > (:now at time zone 'UTC')::date - :days::integer
      and :uncounted_in_scope
)
select
    daily.day,
    sum(daily.completed)::bigint as completed,
    sum(daily.failed)::bigint as failed,
    sum(daily.lost)::bigint as lost,
    sum(daily.cancelled)::bigint as cancelled,
    sum(daily.skipped)::bigint as skipped,
    sum(daily.retried)::bigint as retried,
    sum(daily.duration_ms)::bigint as duration_ms
from daily
group by daily.day
order by daily.day;

-- name: dead_letters
select
    count(*) as total,
    count(*) filter (where dead_letter.acknowledged_at is null) as unacknowledged
from evenbeat.dead_letter
where (:job_id::bigint is null or dead_letter.job_id = :job_id)
  and (:kind::text is null or dead_letter.kind = :kind)
  and (:group::text is null or dead_letter.group_key = :group);
