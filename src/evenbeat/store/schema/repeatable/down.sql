-- Takes away what the repeatable files have made, before the first migration is rolled back. A file
-- of an older release may not have made all of it.
drop view if exists public.schema_scheduled_functions;
drop view if exists public.scheduled_job_status;
drop view if exists metadata.river_job;
drop view if exists metadata.scheduled_job_runs;
drop view if exists metadata.scheduled_jobs;
drop function if exists public.trigger_scheduled_job(varchar);
drop trigger if exists show_changed_job on evenbeat.job;
drop trigger if exists show_new_job on evenbeat.job;
drop trigger if exists carry_out_sql on evenbeat.sql_job;
drop trigger if exists check_sql_job on evenbeat.sql_job;
drop view if exists evenbeat.sql_shown;
drop view if exists evenbeat.run_all;
drop function if exists
    evenbeat_call.call_function(text, jsonb),
    evenbeat_call.is_admin(),
    evenbeat.add_job_of_sql(evenbeat.sql_job),
    evenbeat.admit_sql_role(name),
    evenbeat.call_by_hand(jsonb),
    evenbeat.can_be_switched(evenbeat.pulse),
    evenbeat.call_function(text, jsonb),
    evenbeat.call_to_the_end(text, jsonb, text[]),
    evenbeat.carry_out_sql(),
    evenbeat.check_administrator(name),
    evenbeat.check_caller(),
    evenbeat.check_member(name),
    evenbeat.check_session(),
    evenbeat.check_sql_job(),
    evenbeat.clock(),
    evenbeat.cron_fault(text),
    evenbeat.cron_has_day(integer[], integer[], integer[], boolean),
    evenbeat.cron_values(text, integer, integer, text[]),
    evenbeat.delete_job_of_sql(bigint),
    evenbeat.edit_job_of_sql(evenbeat.sql_job, evenbeat.pulse),
    evenbeat.enqueue(text, jsonb, timestamptz, text, text, jsonb),
    evenbeat.fault_of_function(text, boolean),
    evenbeat.fault_of_job(text, jsonb, timestamptz, text, text, jsonb),
    evenbeat.fault_of_result(jsonb),
    evenbeat.fault_of_sql_job(evenbeat.sql_job),
    evenbeat.forget_all_but(text[]),
    evenbeat.has_next(evenbeat.pulse),
    evenbeat.is_aside(evenbeat.pulse),
    evenbeat.is_beat_in_hand(evenbeat.pulse),
    evenbeat.is_enabled(evenbeat.pulse),
    evenbeat.is_over(evenbeat.pulse),
    evenbeat.is_owed(evenbeat.pulse, timestamptz),
    evenbeat.is_recurring(jsonb),
    evenbeat.is_success(text, jsonb),
    evenbeat.known_to_session(),
    evenbeat.make_settle_run(text, text),
    evenbeat.make_sql_login(),
    evenbeat.new_uid(timestamptz),
    evenbeat.note_of_sql(text, evenbeat.job, jsonb, jsonb),
    evenbeat.qualified_function(text),
    evenbeat.reading(),
    evenbeat.show_changed_job(),
    evenbeat.show_sql_job(bigint),
    evenbeat.shown_state(evenbeat.pulse),
    evenbeat.state_after_success(evenbeat.pulse),
    evenbeat.switch_job_of_sql(evenbeat.sql_job, evenbeat.pulse),
    evenbeat.triggered_by("char"),
    evenbeat.unplace(bigint);
-- Nodes make settle_run, and each version of the program makes one of its own.
do $$
declare
    each_one regprocedure;
begin
    for each_one in
        select oid from pg_proc
        where pronamespace = 'evenbeat'::regnamespace
          and proname = 'settle_run'
    loop
        execute format('drop function %s', each_one);
    end loop;
end
$$;
