-- version: 1
-- How metadata.scheduled_jobs and the jobs stay the same. sql_job is the table under that view. Its
-- triggers check what a client wrote and carry it out on job and pulse; the triggers of job write
-- into sql_job what the other faces did. Both change only what differs, so they never go in circles.
--
-- Every SECURITY DEFINER function names a search_path, under which it calls the others. Names are
-- qualified all the same.

-- What sql_job must say, taken from job and pulse. A job whose texts are longer than the columns of
-- the SQL face, or whose schedule is no cron, is left to the other faces.
create or replace view evenbeat.sql_shown as
select
    job.id as job_id, job.name, job.payload ->> 'function' as function,
    job.timetable #>> '{schedule,cron}' as schedule,
    coalesce(job.timetable #>> '{schedule,zone}', 'UTC') as timezone,
    evenbeat.is_enabled(pulse) as enabled
from evenbeat.job
join evenbeat.pulse on pulse.id = job.id
where job.kind = 'sql_function'
  and job.deleted_at is null
  and length(job.name) <= 100
  and length(job.payload ->> 'function') <= 200
  and length(job.timetable #>> '{schedule,cron}') <= 100;

-- Returns why the job cannot call the function, and what to do; null: it can.
create or replace function evenbeat.fault_of_sql_job(given evenbeat.sql_job) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if given.function is null then
        return format(
            'there is no function %s in metadata or public: create it first, or write its schema '
            'too', given.function_name
        );
    end if;
    return regexp_replace(
        evenbeat.fault_of_function(given.function, exists (
            select from evenbeat.job
            where job.id = given.job_id
              and coalesce(job.payload -> 'arguments', '{}') <> '{}'
        )),
        '^function: ', ''
    );
end
$$;

-- Checks what an SQL client wrote. Rows that repeat what job and pulse say were checked before.
create or replace function evenbeat.check_sql_job() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    is_new constant boolean := tg_op = 'INSERT';
    fault text;
begin
    if not is_new and new.id <> old.id then
        raise exception 'id: is given once and for all' using errcode = 'check_violation';
    end if;
    if not is_new and new is distinct from old then
        new.updated_at := evenbeat.clock();
    end if;
    if exists (
        select from evenbeat.sql_shown
        where (job_id, name, function, schedule, timezone, enabled)
            = (new.job_id, new.name, new.function, new.schedule, new.timezone, new.enabled)
    ) and (is_new or new.function_name in (old.function_name, new.function)) then
        return new;
    end if;
    if is_new and new.job_id is null then
        new.job_id := nextval('evenbeat.job_id_seq');
    end if;
    if btrim(new.name) = '' then
        raise exception 'name: must not be blank'
            using errcode = 'check_violation', column = 'name';
    end if;
    new.schedule := btrim(regexp_replace(new.schedule, '[ \t]+', ' ', 'g'), ' ');
    if is_new or new.schedule <> old.schedule then
        fault := evenbeat.cron_fault(new.schedule);
        if fault is not null then
            raise exception 'schedule: %: %', quote_literal(new.schedule), fault
                using errcode = 'check_violation', column = 'schedule';
        end if;
    end if;
    if (is_new or new.timezone <> old.timezone)
        and not exists (select from evenbeat.zone where zone.name = new.timezone) then
        raise exception 'timezone: % is not a known time zone; write for example Europe/Berlin',
            quote_literal(new.timezone)
            using errcode = 'check_violation', column = 'timezone';
    end if;
    if is_new or new.function_name <> old.function_name then
        new.function := evenbeat.qualified_function(new.function_name);
        fault := evenbeat.fault_of_sql_job(new);
        if fault is not null then
            raise exception 'function_name: %', fault
                using errcode = 'check_violation', column = 'function_name';
        end if;
    end if;
    return new;
end
$$;

-- Does to the job what the client's row says, where the job differs.
create or replace function evenbeat.carry_out_sql() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    shown record;
    beating evenbeat.pulse;
    meant constant bigint := case when tg_op = 'DELETE' then old.job_id else new.job_id end;
begin
    perform from evenbeat.job where job.id = meant for no key update;
    select * into beating from evenbeat.pulse where pulse.id = meant for no key update;
    select * into shown from evenbeat.sql_shown where job_id = meant;
    if tg_op = 'DELETE' then
        if shown.job_id is not null then
            perform evenbeat.delete_job_of_sql(meant);
        end if;
        return null;
    elsif beating.id is null then
        perform evenbeat.add_job_of_sql(new);
    else
        if (shown.name, shown.function, shown.schedule, shown.timezone)
            is distinct from (new.name::text, new.function, new.schedule::text, new.timezone::text)
        then
            perform evenbeat.edit_job_of_sql(new, beating);
            select * into beating from evenbeat.pulse where pulse.id = meant;
        end if;
        if shown.enabled <> new.enabled then
            perform evenbeat.switch_job_of_sql(new, beating);
        end if;
    end if;
    -- Delivered with the commit: the node that plans does not wait for its next turn.
    perform pg_notify('evenbeat_wake', '');
    return null;
end
$$;

-- The other direction: writes into sql_job what another face has done to a job.
create or replace function evenbeat.show_sql_job(changed bigint) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from evenbeat.sql_job
    where sql_job.job_id = changed
      and not exists (select from evenbeat.sql_shown where sql_shown.job_id = changed);
    update evenbeat.sql_job
    set name = shown.name,
        function = shown.function,
        function_name = case
            when sql_job.function = shown.function then sql_job.function_name
            else shown.function
        end,
        schedule = shown.schedule,
        timezone = shown.timezone,
        enabled = shown.enabled,
        updated_at = evenbeat.clock()
    from evenbeat.sql_shown as shown
    where sql_job.job_id = changed
      and shown.job_id = changed
      and (sql_job.name, sql_job.function, sql_job.schedule, sql_job.timezone, sql_job.enabled)
          is distinct from
          (shown.name, shown.function, shown.schedule, shown.timezone, shown.enabled);
    insert into evenbeat.sql_job (
        name, function_name, function, schedule, timezone, enabled, job_id
    )
    select
        shown.name, shown.function, shown.function, shown.schedule, shown.timezone,
        shown.enabled, shown.job_id
    from evenbeat.sql_shown as shown
    where shown.job_id = changed
      and not exists (select from evenbeat.sql_job where sql_job.job_id = changed);
end
$$;

create or replace function evenbeat.show_changed_job() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform evenbeat.show_sql_job(new.id);
    return null;
end
$$;

create or replace trigger check_sql_job before insert or update on evenbeat.sql_job
for each row execute function evenbeat.check_sql_job();

create or replace trigger carry_out_sql after insert or update or delete on evenbeat.sql_job
for each row execute function evenbeat.carry_out_sql();

-- Jobs of other kinds pay for the WHEN condition alone.
create or replace trigger show_new_job after insert on evenbeat.job
for each row when (new.kind = 'sql_function') execute function evenbeat.show_changed_job();

create or replace trigger show_changed_job after update on evenbeat.job
for each row when (new.kind = 'sql_function' or old.kind = 'sql_function')
execute function evenbeat.show_changed_job();

revoke execute on function
    evenbeat.show_sql_job(bigint),
    evenbeat.check_sql_job(),
    evenbeat.carry_out_sql(),
    evenbeat.show_changed_job()
from public;
