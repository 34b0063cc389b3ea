-- version: 1
-- The views of the SQL face. Some build on others: a view that must be dropped and created again goes
-- with those that build on it.

-- last_run_at is for people: no schedule depends on it.
create or replace view metadata.scheduled_jobs as
select
    sql_job.id, sql_job.name, sql_job.description, sql_job.function_name, sql_job.schedule,
    sql_job.timezone, sql_job.enabled,
    (
        select pulse.started_at from evenbeat.pulse where pulse.id = sql_job.job_id
    ) as last_run_at,
    sql_job.created_at, sql_job.updated_at
from evenbeat.sql_job;

-- Runs, the one in hand included. A beat that was skipped is no run.
create or replace view metadata.scheduled_job_runs as
select
    run_all.id, sql_job.id as job_id, run_all.started_at, run_all.finished_at as completed_at,
    run_all.duration_ms::integer as duration_ms,
    case
        when run_all.state = 'c' then true
        when run_all.state in ('f', 'x') then false
    end as success,
    coalesce(run_all.error, run_all.result ->> 'message', run_all.reason) as message,
    run_all.result as details, run_all.beat_at as scheduled_for,
    evenbeat.triggered_by(run_all.cause)::varchar(50) as triggered_by
from evenbeat.sql_job
join evenbeat.run_all on run_all.job_id = sql_job.job_id
where run_all.state <> 'k';

create or replace view public.scheduled_job_status as
select
    jobs.id, jobs.name, jobs.description, jobs.function_name, jobs.schedule, jobs.timezone,
    jobs.enabled, jobs.last_run_at, jobs.created_at, jobs.updated_at,
    newest.id as last_run_id, newest.success as last_run_success,
    newest.message as last_run_message, newest.duration_ms as last_run_duration_ms,
    newest.triggered_by as last_run_triggered_by,
    counted.total as total_runs, counted.good as successful_runs, counted.bad as failed_runs,
    round(100.0 * counted.good / nullif(counted.total, 0), 1) as success_rate_percent
from metadata.scheduled_jobs as jobs
left join lateral (
    select runs.id, runs.success, runs.message, runs.duration_ms, runs.triggered_by
    from metadata.scheduled_job_runs as runs
    where runs.job_id = jobs.id
    order by runs.started_at desc, runs.id desc
    limit 1
) as newest on true
cross join lateral (
    select
        count(*) as total,
        count(*) filter (where runs.success) as good,
        count(*) filter (where not runs.success) as bad
    from metadata.scheduled_job_runs as runs
    where runs.job_id = jobs.id
) as counted;

-- For administrators: granted to no role here. The list of functions is PostgreSQL's own catalogue.
create or replace view public.schema_scheduled_functions as
select
    status.function_name,
    initcap(replace((parse_ident(sql_job.function))[2], '_', ' ')) as display_name,
    coalesce(
        obj_description(to_regproc(sql_job.function), 'pg_proc'), status.description
    ) as description,
    null::varchar(50) as category,
    status.name as job_name, status.schedule as cron_schedule, status.timezone,
    status.enabled as schedule_enabled, status.last_run_at, status.last_run_success,
    status.success_rate_percent,
    to_regproc(sql_job.function) is not null as is_registered
from public.scheduled_job_status as status
join evenbeat.sql_job on sql_job.id = status.id;

-- What waits, runs and has run, in the words of a queue that clients watched before. A job that waits
-- has no run yet: it has its own id, as a negative number.
create or replace view metadata.river_job as
select
    listed.id, 'scheduled_job_execute'::text as kind,
    jsonb_build_object(
        'job_id', sql_job.id, 'job_name', sql_job.name, 'function_name', sql_job.function_name,
        'scheduled_for', listed.beat_at, 'triggered_by', listed.triggered_by
    ) as args,
    listed.state, listed.attempt, listed.created_at, listed.scheduled_at, listed.attempted_at,
    listed.finalized_at, 'scheduled_jobs'::text as queue
from evenbeat.sql_job
cross join lateral (
    select
        run_all.id, run_all.beat_at,
        evenbeat.triggered_by(run_all.cause) as triggered_by,
        case run_all.state
            when 'r' then 'running'
            when 'c' then 'completed'
            when 'x' then 'cancelled'
            else 'discarded'
        end as state,
        run_all.attempt, run_all.started_at as created_at,
        coalesce(run_all.beat_at, run_all.started_at) as scheduled_at,
        run_all.started_at as attempted_at, run_all.finished_at as finalized_at
    from evenbeat.run_all
    where run_all.job_id = sql_job.job_id
      and run_all.state <> 'k'
    union all
    select
        -sql_job.id,
        case pulse.due_at
            when pulse.manual_at then null
            when pulse.retry_at then pulse.beat_at
            else pulse.next_beat_at
        end,
        evenbeat.triggered_by(
            case when pulse.manual_at = pulse.due_at then 'm'::"char" else 's'::"char" end
        ),
        case
            when pulse.due_at <= evenbeat.clock() then 'available'
            when pulse.due_at = pulse.retry_at then 'retryable'
            else 'scheduled'
        end,
        case when pulse.due_at = pulse.retry_at then pulse.attempt else 0 end,
        pulse.state_at, pulse.due_at, null, null
    from evenbeat.pulse
    where pulse.id = sql_job.job_id
      and pulse.due_at is not null
      and pulse.token is null
) as listed;

do $$
begin
    if exists (select from pg_roles where rolname = 'authenticated') then
        grant select on metadata.scheduled_jobs, metadata.scheduled_job_runs,
            public.scheduled_job_status to authenticated;
    end if;
end
$$;
