-- Takes away the audit and every replaced definition, and switches maintenance off.
alter table evenbeat.pulse drop column permit_group_id;
drop table evenbeat.maintenance;
drop table evenbeat.job_version;
drop table evenbeat.audit;
