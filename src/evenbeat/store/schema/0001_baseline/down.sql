-- Takes away every job, all history, and everything else of Evenbeat's. The repeatable objects are
-- gone already. The roles stay: they are the server's, and other databases or grants may need them.
drop schema evenbeat_call;
drop table
    evenbeat.access_token,
    evenbeat.audit,
    evenbeat.chore,
    evenbeat.dead_letter,
    evenbeat.figure,
    evenbeat.idempotency,
    evenbeat.job,
    evenbeat.job_group,
    evenbeat.job_version,
    evenbeat.lane,
    evenbeat.late_run,
    evenbeat.load_delta,
    evenbeat.maintenance,
    evenbeat.node,
    evenbeat.permit,
    evenbeat.placement,
    evenbeat.placing,
    evenbeat.pulse,
    evenbeat.rebalance_move,
    evenbeat.rebalance_plan,
    evenbeat.rebalance_skip,
    evenbeat.run,
    evenbeat.run_day,
    evenbeat.run_log,
    evenbeat.run_total,
    evenbeat.score,
    evenbeat.sql_job,
    evenbeat.sql_login,
    evenbeat.template,
    evenbeat.unplaced,
    evenbeat.unplanned,
    evenbeat.zone;
drop function evenbeat.is_live("char", timestamptz, timestamptz, timestamptz);
drop sequence evenbeat.run_id;
drop domain evenbeat.instant;
-- A schema that was there before us, or that holds objects of others by now, stays.
do $$
begin
    if obj_description(to_regnamespace('metadata'), 'pg_namespace') = 'made by Evenbeat'
        and not exists (select from pg_class where relnamespace = to_regnamespace('metadata'))
        and not exists (select from pg_proc where pronamespace = to_regnamespace('metadata')) then
        drop schema metadata;
    elsif to_regnamespace('metadata') is not null
        and exists (select from pg_roles where rolname = 'evenbeat_sql') then
        revoke usage on schema metadata from evenbeat_sql;
    end if;
end
$$;
