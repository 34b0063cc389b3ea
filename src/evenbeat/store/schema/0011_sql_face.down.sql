-- Takes away the SQL face; the jobs, their schedules and their history stay. Jobs that wait for
-- their plan are stopped: a schedule that is edited is planned again. The role evenbeat_sql stays:
-- other databases of the server may need it.
drop view public.schema_scheduled_functions;
drop view public.scheduled_job_status;
drop view metadata.river_job;
drop view metadata.scheduled_job_runs;
drop view metadata.scheduled_jobs;
drop function public.trigger_scheduled_job(varchar);
drop function evenbeat.call_by_hand(jsonb);
drop function evenbeat.check_caller();
drop function evenbeat.check_member(name);
drop function evenbeat.check_administrator(name);
drop function evenbeat.check_session();
drop function evenbeat.forget_all_but(text[]);
drop function evenbeat.known_to_session();
drop schema evenbeat_call cascade;
drop function evenbeat.call_to_the_end(text, jsonb, text[]);
drop function evenbeat.reading();
drop function evenbeat.fault_of_result(jsonb);
drop trigger show_changed_job on evenbeat.job;
drop trigger show_new_job on evenbeat.job;
drop trigger carry_out_sql on evenbeat.sql_job;
drop trigger check_sql_job on evenbeat.sql_job;
drop function evenbeat.show_changed_job();
drop function evenbeat.show_sql_job(bigint);
drop function evenbeat.carry_out_sql();
drop function evenbeat.delete_job_of_sql(bigint);
drop function evenbeat.switch_job_of_sql(evenbeat.sql_job, evenbeat.pulse);
drop function evenbeat.edit_job_of_sql(evenbeat.sql_job, evenbeat.pulse);
drop function evenbeat.add_job_of_sql(evenbeat.sql_job);
drop function evenbeat.note_of_sql(text, evenbeat.job, jsonb, jsonb);
drop function evenbeat.check_sql_job();
drop function evenbeat.unplace(bigint);
drop function evenbeat.fault_of_sql_job(evenbeat.sql_job);
drop function evenbeat.qualified_function(text);
drop function evenbeat.cron_fault(text);
drop function evenbeat.cron_has_day(integer[], integer[], integer[], boolean);
drop function evenbeat.cron_values(text, integer, integer, text[]);
drop view evenbeat.sql_shown;
drop table evenbeat.sql_job;
update evenbeat.pulse
set state = 'd'
from evenbeat.unplanned
where pulse.id = unplanned.job_id
  and pulse.state = 's'
  and coalesce(pulse.next_beat_at, pulse.retry_at, pulse.manual_at) is null;
drop table evenbeat.unplanned;
drop table evenbeat.zone;
drop function evenbeat.clock();
do $$
begin
    if to_regnamespace('metadata') is not null
        and obj_description(to_regnamespace('metadata'), 'pg_namespace') = 'made by Evenbeat'
        and not exists (select from pg_class where relnamespace = to_regnamespace('metadata'))
        and not exists (select from pg_proc where pronamespace = to_regnamespace('metadata')) then
        drop schema metadata;
    elsif exists (select from pg_roles where rolname = 'evenbeat_sql') then
        revoke usage on schema metadata from evenbeat_sql;
    end if;
end
$$;
