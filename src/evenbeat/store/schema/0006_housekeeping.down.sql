-- Takes away daily figures and log lines with them; jobs and runs stay.
alter table evenbeat.permit reset (autovacuum_vacuum_cost_delay);
alter table evenbeat.run reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
alter table evenbeat.pulse reset (autovacuum_vacuum_cost_delay, autovacuum_analyze_scale_factor);
drop index evenbeat.job_deleted;
drop table evenbeat.figure;
drop table evenbeat.run_log;
drop table evenbeat.late_run;
drop table evenbeat.run_total;
drop table evenbeat.run_day;
drop table evenbeat.chore;
