-- version: 1
-- trigger_scheduled_job runs a job by hand, in the transaction of its caller.

-- Runs the job at once. The schedule is neither asked nor moved. The lock on the job's row keeps the
-- engine and other callers away until the caller's transaction ends.
-- It decides less than `settle` does for a run by a node: the caller is told of a failure, so there
-- is no retry and no dead letter, and a failure leaves the state and the streak as they are.
create or replace function public.trigger_scheduled_job(job_name varchar) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
declare
    started timestamptz;
    meant bigint;
    beating evenbeat.pulse;
    payload jsonb;
    called record;
    is_good boolean;
    new_run bigint;
begin
    perform evenbeat.check_caller();
    select sql_job.job_id into meant from evenbeat.sql_job where sql_job.name = job_name;
    if meant is null then
        raise exception 'Scheduled job not found: %', job_name
            using hint = 'select name from metadata.scheduled_jobs shows which there are.';
    end if;
    begin
        select * into beating from evenbeat.pulse where pulse.id = meant for no key update;
    exception when lock_not_available then
        beating.token := 0;
    end;
    if beating.token is not null then
        raise exception 'Scheduled job is running: %', job_name
            using errcode = 'lock_not_available', hint = 'Try again when that run has ended.';
    end if;
    select job.payload into payload
    from evenbeat.job
    where job.id = meant
      and job.deleted_at is null;
    if payload is null then
        raise exception 'Scheduled job not found: %', job_name;
    end if;
    if jsonb_path_exists(payload -> 'arguments', '$.** ? (exists (@.secret))') then
        raise exception 'the arguments of % refer to secrets, which only a node can fill in', job_name
            using hint = 'Run it through the API or by `evenbeat jobs run`.';
    end if;
    -- Read after the lock was waited for: a run does not start while another one ends.
    started := evenbeat.clock();
    called := evenbeat.call_by_hand(payload);
    -- The transaction holds the lock, so it does not keep out a function that triggers its own job.
    if exists (
        select from evenbeat.pulse
        where pulse.id = meant
          and pulse.run_number <> beating.run_number
    ) then
        raise exception 'Scheduled job is running: %', job_name
            using errcode = 'lock_not_available', hint = 'Its function must not trigger it.';
    end if;
    is_good := evenbeat.is_success(called.error, called.outcome);
    insert into evenbeat.run (
        id, job_id, number, state, cause, attempt, started_at, finished_at, duration_ms,
        error_class, error, result
    )
    values (
        nextval('evenbeat.run_id'), meant, beating.run_number + 1,
        case when is_good then 'c' else 'f' end, 'm', 1, started,
        evenbeat.clock(), called.duration_ms, case when not is_good then 'handler_error' end,
        case
            when not is_good then coalesce(called.error, left(called.outcome ->> 'message', 10000))
        end,
        called.outcome
    )
    returning run.id into new_run;
    update evenbeat.pulse
    set run_number = pulse.run_number + 1,
        run_id = new_run,
        started_at = started,
        node_id = null,
        completed_count = pulse.completed_count + is_good::integer,
        failed_count = pulse.failed_count + (not is_good)::integer,
        -- A success ends the row of failures, by hand too.
        failure_streak = case when is_good then 0 else pulse.failure_streak end,
        state = case when is_good then evenbeat.state_after_success(pulse) else pulse.state end
    where pulse.id = meant;
    return jsonb_build_object(
        'success', called.error is null, 'run_id', new_run, 'job_name', job_name,
        'job_success', is_good, 'duration_ms', called.duration_ms
    ) || case
        when called.error is null then jsonb_build_object('result', called.outcome)
        else jsonb_build_object('error', called.error)
    end;
end
$$;

revoke execute on function public.trigger_scheduled_job(varchar) from public;

do $$
begin
    if exists (select from pg_roles where rolname = 'authenticated') then
        grant execute on function public.trigger_scheduled_job(varchar) to authenticated;
    end if;
end
$$;
